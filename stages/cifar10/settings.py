"""Parameters -> settings of the images, each row and the table; rows and tables come from `algorithms`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from annulus.errors import InputError
from annulus_lab.config.params import Names
from annulus_lab.config.resolved import IMAGES, RUN, resolved
from annulus_lab.studies.shared.rows_params import RowsParams, row_at
from annulus_lab.studies.shared.settings_files import write_settings
from annulus_lab.studies.shared.study import OwnStudy, Study, StudyParams

ALGORITHMS = Path("stages/algorithms/params.yaml")

READERS = {"images": "study_images", "rows": "algorithms/train", "table": "algorithms/table"}


@dataclass(frozen=True, kw_only=True)
class Cifar10Params(StudyParams):
    """Rows and tables taken from the study `algorithms`."""

    rows: Names
    tables: Names


def main(study: Study) -> dict[str, Any]:
    own, algorithms = study.read(Cifar10Params), OwnStudy(ALGORITHMS)
    pairs = algorithms.read(RowsParams).pairs

    def listed(section: str, name: str) -> dict[str, Any]:
        try:
            return algorithms.row(section, name)
        except InputError as error:
            raise InputError(f"{study.path}: {section}: {error}") from None

    files = {"images": resolved(study.variant("defaults", {}, own.seeds[0]), IMAGES)}
    for row in own.rows:
        run = study.variant(row, row_at(own.scale, listed("rows", row)), own.seeds[0])
        for seed in own.seeds:
            files[f"rows/{row}/{seed}"] = {"scale": own.scale, "seeds": [seed], "run": resolved(run, RUN)}
    table = {
        "tables": {name: listed("tables", name) for name in own.tables},
        "pairs": {row: bases for row, bases in pairs.items() if row in own.rows},
    }
    return files | {"table": {"scale": own.scale, "seeds": own.seeds, "dataset": study.dataset} | table}


if __name__ == "__main__":
    write_settings(main, Study, READERS)
