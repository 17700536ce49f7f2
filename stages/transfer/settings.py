"""Parameters of the study and of the main line -> settings of training images, encoders, targets and the table."""

from typing import Any

from annulus_lab.config.params import plain
from annulus_lab.config.resolved import IMAGES, PRETRAIN, resolved
from annulus_lab.studies.shared.settings_files import write_settings
from annulus_lab.studies.shared.study import MainStudy
from annulus_lab.studies.transfer.target_tables import SELECTORS
from annulus_lab.studies.transfer.transfer_params import EMBEDDED, TransferParams

SECTIONS = ("images", "roots", "probe", "few_shot")

READERS = {
    "training": "study_images",
    "variants": "transfer/encoders",
    "images": "transfer/images",
    "targets": "transfer/target",
    "further": "transfer/encoders",
    "further_targets": "transfer/further",
    "table": "transfer/table",
}


def main(study: MainStudy) -> dict[str, Any]:
    compared = study.read(TransferParams)
    own = {name: plain(study.section(name, type(getattr(compared, name)))) for name in SECTIONS}
    scale, seeds, trained = study.params.scale, study.params.seeds, study.variant("defaults", compared.defaults)
    files = {"training": resolved(trained, IMAGES) | {"seeds": seeds}}
    for name, variant in vars(compared.variants).items():
        run = resolved(study.variant(f"variants.{name}", compared.defaults | variant.changes), PRETRAIN)
        files[f"variants/{name}"] = {"seeds": seeds, "trained": variant.trained, "run": run}
    for one in compared.encoders:
        run = resolved(study.variant(f"encoders: {one.name}", compared.defaults | one.changes), PRETRAIN)
        files[f"further/{one.name}"] = {"seeds": seeds, "trained": one.trained, "run": run}
    probes = {"scale": scale, "seeds": seeds, "probe": own["probe"], "few_shot": own["few_shot"]}
    for target in compared.targets:
        root = None if target in EMBEDDED else own["roots"][target]
        images = {
            "root": root,
            "images": own["images"],
            "image_size": trained.get("datasets.${dataset}").image_size,
            "seed": seeds[0],
        }
        files[f"images/{target}"] = {"target": target} | images
        files[f"targets/{target}"] = {"target": target} | probes
    for one in compared.encoders:
        files[f"further_targets/{one.name}"] = {"targets": compared.targets} | probes
    main_line = {name: getattr(trained, name) for name in SELECTORS}
    table = {"targets": compared.targets, "variants": list(vars(compared.variants)), "main": main_line}
    return files | {"table": table | {"further": {one.name: one.base for one in compared.encoders}}}


if __name__ == "__main__":
    write_settings(main, MainStudy, READERS)
