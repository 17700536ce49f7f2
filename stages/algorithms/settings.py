"""The parameters -> settings of the images, each row and the table: a file for each."""

from typing import Any

from annulus.config.resolved import IMAGES, RUN, resolved
from annulus.errors import InputError, nearest, shown
from annulus.studies.settings_files import write_settings
from annulus.studies.study import Settings, Study
from annulus.studies.tables import RowsParams


def main(study: Study) -> dict[str, Any]:
    own = study.read(RowsParams)
    files = {"images": resolved(study.variant("defaults", {}, own.seeds[0]), IMAGES)}
    for row, settings in own.rows.items():
        run = study.variant(row, _at_scale(settings, own, f"{study.path}: rows.{row}.scales"), own.seeds[0])
        files[f"rows/{row}"] = {"scale": own.scale, "seeds": own.seeds, "run": resolved(run, RUN)} | study.measured
    table = {name: study.content[name] for name in ("tables", "pairs")}
    return files | {"table": {"scale": own.scale, "seeds": own.seeds, "dataset": study.dataset} | table}


def _at_scale(row: Settings, own: RowsParams, where: str) -> Settings:
    """A row's settings, over which stand those of its `scales` for the study's scale."""
    scales = row.get("scales", {})
    if not isinstance(scales, dict) or not all(isinstance(changes, dict) for changes in scales.values()):
        raise InputError(f"{where}: {shown(scales)} refused; expected settings for each scale: {{demo: {{...}}}}")
    for scale in scales:
        if scale not in own.scales:
            raise InputError(f"{where}: {scale!r} is no scale{nearest(scale, own.scales)}")
    return {key: value for key, value in row.items() if key != "scales"} | scales.get(own.scale, {})


if __name__ == "__main__":
    write_settings(main, Study)
