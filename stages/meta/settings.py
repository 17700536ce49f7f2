"""The study's and the main line's parameters -> what encoders, images, targets and the table read."""

from typing import Any

from annulus.config.resolved import PRETRAIN, resolved
from annulus.config.study import MainStudy
from annulus.pipeline.stage import write_settings
from annulus.targets.params import EMBEDDED, FewShotParams, ImagesParams, ProbeParams, Roots, check_target


def main(study: MainStudy) -> dict[str, Any]:
    scale, seeds, targets = study.params.scale, study.seeds, study.content["targets"]
    sections = {"images": ImagesParams, "roots": Roots, "probe": ProbeParams, "few_shot": FewShotParams}
    own = {name: study.section(name, model).model_dump(mode="json") for name, model in sections.items()}
    size = study.main.get("datasets.${dataset}").image_size
    files: dict[str, Any] = {}
    for variant in study.content["variants"]:
        row = study.row("variants", variant)
        params = study.variant(f"variants.{variant}", row["changes"])
        files[f"variants/{variant}"] = {
            "seeds": seeds, "trained": row["trained"], "run": resolved(params, PRETRAIN),
        }  # fmt: skip
    probes = {"scale": scale, "seeds": seeds, "probe": own["probe"], "few_shot": own["few_shot"]}
    for target in targets:
        check_target(target)
        root = None if target in EMBEDDED else own["roots"][target]
        images = {"images": own["images"], "root": root, "image_size": size, "seed": seeds[0]}
        files[f"images/{target}"] = {"target": target} | images
        files[f"targets/{target}"] = {"target": target} | probes
    trained = {name: getattr(study.main, name) for name in ("method", "split", "sampler", "dataset")}
    return files | {"table": {"targets": targets, "variants": list(study.content["variants"]), "main": trained}}


if __name__ == "__main__":
    write_settings(main, MainStudy)
