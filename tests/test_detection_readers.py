"""Readers of COCO, VOC and LVIS: what they read, and each sentence that refuses a file."""

import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from annulus.detection.annotated import PERSON
from annulus.detection.coco import read_coco
from annulus.detection.lvis import read_lvis
from annulus.detection.splits import read_splits
from annulus.detection.voc import read_voc
from annulus.errors import InputError

COCO128 = Path("/work/shared/data/coco128.tar")
