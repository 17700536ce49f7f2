"""Readers of COCO, VOC and LVIS: what they read, and each sentence that refuses a file."""

from pathlib import Path

COCO128 = Path("/work/shared/data/coco128.tar")
