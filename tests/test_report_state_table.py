"""The report's first table."""

from dataclasses import replace

import pytest
from by_path import ROOT

from annulus_lab.report.claims.verdicts import verdicts
from annulus_lab.report.page.state_table import in_words, state, state_table
from annulus_lab.report.papers.comparison import compare, load_figures, load_tables
from annulus_lab.report.papers.metrics import Metrics
from annulus_lab.report.presets.overview import Commands


def test_every_table_figure_and_theorem_of_the_papers_has_a_row_with_its_state():
    metrics = Metrics(ROOT)
    every = verdicts(metrics)
    commands = {"ring.table1b": Commands("ring.table1b/IR", 3, 0, "at least 7 h of an NVIDIA H200")}
    table = state_table(compare(metrics), every, commands)
    rows = {row[0].text: [cell.text for cell in row[1:]] for row in table.rows}
    figures = {name for name, figure in load_figures().items() if not figure.finding.startswith("illustration only")}
    theorems = {claim.id for claim in every if not claim.where and not claim.ours}
    assert rows.keys() == {table.id for table in load_tables()} | figures | theorems
    assert rows["ring.table1b"][-1] == (
        "3 commands; the first: at least 7 h of an NVIDIA H200: annulus preset ring.table1b/IR"
    )
    assert sum(int(part.rpartition(" ")[2]) for part in in_words(table).split(", ")) == len(rows)


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        (["held", "asserted by a test"], "works"),
        (["held", "did not hold"], "works in part"),
        (["held", "undecided"], "works in part"),
        (["did not hold", "undecided"], "fails"),
        (["no effect"], "no effect"),
        (["undecided", "no effect"], "undecided"),
        (["not run"], "only at scale"),
    ],
)
def test_a_state_is_of_all_claims_of_an_item(kinds, expected):
    claim = verdicts(Metrics(ROOT))[0]
    assert state([replace(claim, verdict=kind) for kind in kinds]) == expected
