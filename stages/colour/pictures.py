"""Images with a class for each pixel -> a picture of some images above their masks."""

import argparse
from collections.abc import Mapping
from typing import Any

from annulus.evals.mask_pictures import mask_sheet
from annulus.files.images import load_images
from annulus.files.results import write_bytes
from annulus.files.sheets import png
from annulus_lab.pipeline.stage import Results, run_resolved

PATHS = ["segmented", "masks"]


def main(settings: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    images = load_images(paths.segmented / "test.safetensors")
    write_bytes(paths.masks, png(mask_sheet(images, settings["rows"], settings["columns"])))
    return Results({})


if __name__ == "__main__":
    run_resolved(main, PATHS)
