"""The report of images without a class: parts that need classes are empty with the reason, and none is broken."""

import pytest

from annulus.files.results import write_metrics, write_seeds, write_table
from annulus_lab.report.figures.catalogue import PLOTS
from annulus_lab.report.page.sections import NO_CLASS, by_seed, figure, part
from annulus_lab.report.papers.metrics import Metrics


@pytest.fixture
def metrics(tmp_path):
    folder = tmp_path / "metrics/main"
    folder.mkdir(parents=True)
    write_metrics(folder / "prepare.json", {"train_images": 270, "classes": 0})
    for stage in ("knn", "linear"):
        write_seeds(folder / f"{stage}.json", {0: {}, 1: {}})
    write_table(folder / "linear_history.csv", [], ("seed", "epoch"))
    write_table(folder / "confusion.csv", [], ("actual", "predicted"))
    write_table(folder / "pretrain_history.csv", [{"seed": 0, "epoch": 1, "bound_nats": 0.1, "ceiling_nats": 1.0}])
    write_table(folder / "diagnostics_history.csv", [{"seed": 0, "epoch": 1, "effective_rank": 3.0}])
    return Metrics(tmp_path)


def test_tables_and_curves_of_classes_say_why_they_are_empty(metrics):
    assert by_seed(metrics, "main/knn.json", "") is NO_CLASS
    assert by_seed(metrics, "main/linear.json", "") is NO_CLASS
    assert part(lambda: metrics.rows("main/confusion.csv"), metrics, "main/confusion.csv") is NO_CLASS
    plots = {plot.name: plot for plot in PLOTS}
    for name in ("curve.accuracy", "diagnostics.false-negatives", "curve.linear"):
        assert figure(plots[name], metrics, []).svg is NO_CLASS, name
    assert not NO_CLASS.broken
    assert metrics.broken == []
    assert figure(plots["curve.bound"], metrics, []).svg is not NO_CLASS
