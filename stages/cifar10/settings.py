"""The parameters -> what the images, each row and the table read; the rows and tables are those of `algorithms`."""

from pathlib import Path
from typing import Any

from annulus.config.resolved import IMAGES, RUN, resolved
from annulus.config.study import OwnStudy, Study
from annulus.errors import InputError
from annulus.pipeline.stage import write_settings

ALGORITHMS = Path("stages/algorithms/params.yaml")


def main(study: Study) -> dict[str, Any]:
    own, content, algorithms = study.params, study.content, OwnStudy(ALGORITHMS)
    algorithms.check_tables()

    def listed(section: str, name: str) -> dict[str, Any]:
        try:
            return algorithms.row(section, name)
        except InputError as error:
            raise InputError(f"{study.path}: {section}: {error}") from None

    files = {"images": resolved(study.variant("defaults", {}, own.seeds[0]), IMAGES)}
    for row in content["rows"]:
        run = study.variant(row, listed("rows", row), own.seeds[0])
        for seed in own.seeds:
            files[f"rows/{row}/{seed}"] = {"scale": own.scale, "seeds": [seed], "run": resolved(run, RUN)}
    table = {
        "tables": {name: listed("tables", name) for name in content["tables"]},
        "pairs": {row: bases for row, bases in algorithms.content["pairs"].items() if row in content["rows"]},
    }
    return files | {"table": {"scale": own.scale, "seeds": own.seeds, "dataset": study.dataset} | table}


if __name__ == "__main__":
    write_settings(main, Study)
