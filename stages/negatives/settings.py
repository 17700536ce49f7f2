"""The parameters -> what the images, each part and the estimates read: a file for each."""

from typing import Any

from annulus.config.grid import part_settings
from annulus.config.resolved import IMAGES, RUN, resolved
from annulus.config.study import Study
from annulus.pipeline.stage import write_settings


def main(study: Study) -> dict[str, Any]:
    own, chosen = {"scale": study.params.scale, "seeds": study.params.seeds}, study.content["estimates"]
    base = study.variant("estimates", {}, study.params.seeds[0])
    files = {"images": resolved(base, IMAGES)}
    for part in study.content["parts"]:
        files[f"parts/{part}"] = part_settings(study, part)
    samplers = {
        name: resolved(
            study.variant(f"estimates.samplers.{name}", choice, study.params.seeds[0]), ["samplers.${sampler}"]
        )
        for name, choice in chosen["samplers"].items()
    }
    return files | {"estimates": own | chosen | {"run": resolved(base, RUN), "samplers": samplers}}


if __name__ == "__main__":
    write_settings(main, Study)
