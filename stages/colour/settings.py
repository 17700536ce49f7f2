"""The study's parameters -> what its images and its runs read: a file for each data set, and one for all spaces."""

from typing import Any

from annulus.config.evals import SegmentationParams
from annulus.config.file import checked
from annulus.config.resolved import IMAGES, RUN, resolved
from annulus.config.study import Study
from annulus.pipeline.stage import write_settings

SETS = ("labelled", "segmented")  # the training images with a class each, and those with a class for each pixel


def main(study: Study) -> dict[str, Any]:
    scale, seeds = study.params.scale, study.params.seeds
    sets = {name: study.row("sets", name)[scale] for name in SETS}
    images = {
        f"images/{name}": resolved(study.variant(f"sets.{name}", own, seeds[0]), IMAGES) for name, own in sets.items()
    }
    where = f"{study.path}: decoders.{scale}"
    decoder = checked(study.row("decoders", scale), where, SegmentationParams).model_dump()
    points = [
        {"space": space, "run": resolved(study.variant(space, sets["labelled"] | {"split": space}, seeds[0]), RUN)}
        for space in study.content["spaces"][scale]
    ]
    own = {"scale": scale, "seeds": seeds, "held_out_pairs": study.content["held_out_pairs"], "decoder": decoder}
    return images | {"spaces": own | {"points": points}, "pictures": study.row("pictures", scale)}


if __name__ == "__main__":
    write_settings(main, Study)
