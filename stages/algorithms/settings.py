"""Parameters -> settings of the images, each row and the table: a file for each."""

from typing import Any

from annulus_lab.config.resolved import IMAGES, RUN, resolved
from annulus_lab.studies.shared.rows_params import RowsParams, row_at
from annulus_lab.studies.shared.settings_files import write_settings
from annulus_lab.studies.shared.study import Study

READERS = {"images": "study_images", "rows": "algorithms/train", "table": "algorithms/table"}


def main(study: Study) -> dict[str, Any]:
    own = study.read(RowsParams)
    files = {"images": resolved(study.variant("defaults", {}, own.seeds[0]), IMAGES)}
    for row, settings in own.rows.items():
        run = study.variant(row, row_at(own.scale, settings), own.seeds[0])
        files[f"rows/{row}"] = {"scale": own.scale, "seeds": own.seeds, "run": resolved(run, RUN)} | study.measured
    table = {name: study.content[name] for name in ("tables", "pairs", "oracle") if name in study.content}
    return files | {"table": {"scale": own.scale, "seeds": own.seeds, "dataset": study.dataset} | table}


if __name__ == "__main__":
    write_settings(main, Study, READERS)
