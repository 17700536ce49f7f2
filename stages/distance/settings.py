"""The study's parameters -> what its images and its runs read: a file for each data set, and one for all offsets."""

from typing import Any

from annulus.config.resolved import IMAGES, RUN, resolved
from annulus.config.study import Study
from annulus.pipeline.stage import write_settings

SETS = ("large", "first", "second")  # the training images, and what the features are probed on


def main(study: Study) -> dict[str, Any]:
    scale, seeds = study.params.scale, study.params.seeds
    pairs, sets = study.row("pairs", scale), {name: study.row("sets", name)[scale] for name in SETS}
    variants = {name: study.variant(f"sets.{name}", own, seeds[0]) for name, own in sets.items()}
    images = {f"images/{name}": resolved(params, IMAGES) for name, params in variants.items()}
    points = [
        {"offset": offset, "run": resolved(study.variant(f"offset {offset}", sets["large"] | apart, seeds[0]), RUN)}
        for offset in pairs["offsets"]
        for apart in [{"view_sets.patches.patches.offset": offset}]
    ]
    names = {name: variants[name].dataset for name in SETS[1:]}
    own = {"scale": scale, "seeds": seeds, "held_out_pairs": pairs["held_out_pairs"]}
    return images | {"offsets": own | {"sets": names, "points": points}}


if __name__ == "__main__":
    write_settings(main, Study)
