"""The study of docs/add.md: its lines, word for word, then a run at `scale: tiny`."""

import re
import subprocess
from datetime import UTC, datetime

import pytest
from added import own_study, recipe_of
from by_path import parse_yaml, script
from checkout import Checkout, ran, rows_of
from stated import stated_text

from annulus.errors import InputError
from annulus_lab.report.page.content import gather
from annulus_lab.studies.shared.study import Study

NOW = datetime(2026, 11, 28, tzinfo=UTC)
STARTER = own_study("own")


@pytest.fixture
def refusal(tmp_path):
    """Function that returns the error about the starter without one of its keys."""

    def refuse(*keys):
        place = content = parse_yaml(STARTER)
        for key in keys[:-1]:
            place = place[key]
        del place[keys[-1]]
        (tmp_path / "params.yaml").write_text(stated_text())
        own = tmp_path / "stages/own/params.yaml"
        own.parent.mkdir(parents=True)
        own.write_text(str(content))
        with pytest.raises(InputError) as error:
            script("stages/study_settings.py").main(Study(tmp_path / "params.yaml", own))
        return str(error.value).removeprefix(f"{own}: ")

    return refuse


@pytest.mark.parametrize("key", ["across", "scale", "seeds", "scales", "defaults", "parts"])
def test_what_a_study_must_have_is_named_where_it_is_missing(refusal, key):
    assert refusal(key) == f"{key}: missing; it has no default: write a value"


@pytest.mark.parametrize("key", ["base", "series"])
def test_so_is_what_a_part_must_have_and_no_figure_of_a_paper_is_asked_for(refusal, key):
    assert refusal("parts", "temperature", key) == f"parts.temperature.{key}: missing; it has no default: write a value"
    assert "figure:" not in STARTER


def test_a_choice_that_is_left_out_is_named(refusal):
    assert refusal("defaults", "bound") == "defaults: lacks bound; a study sets every selector"


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """Checkout in which the recipe's lines were followed, and the study was run with two seeds.

    The study has another name, since a user's checkout may have one of the recipe's name.
    """
    checkout = Checkout(tmp_path_factory.mktemp("annulus"), "strength")
    lines = re.search(r"^```sh\nNAME=\w+\n(.*?)^```$", recipe_of("study"), re.MULTILINE | re.DOTALL)[1]
    subprocess.run(["bash", "-euo", "pipefail", "-c", f"NAME=of_a_test\n{lines}"], cwd=checkout.folder, check=True)
    (checkout.folder / "stages/of_a_test/params.yaml").write_text(own_study("of_a_test"))
    checkout.edit("stages/of_a_test/params.yaml", "scale: demo", "scale: tiny")
    checkout.edit("stages/of_a_test/params.yaml", "seeds: [0, 1, 2]", "seeds: [0, 1]")
    output = checkout.dvc("repro", study="of_a_test")
    assert ran(output) == ["settings", "images", "part@temperature"]
    return checkout


@pytest.mark.slow
def test_the_starter_runs_and_each_value_of_each_series_has_its_gain_over_the_base(repository):
    rows = rows_of(repository.project("of_a_test") / "metrics/temperature.csv")
    grid = [(series, value) for series in ("uniform", "ring") for value in ("0.1", "0.2", "0.4")]
    assert [(row["series"], row["value"]) for row in rows] == grid
    assert [row["linear_verdict"] == "base" for row in rows] == [True] * 3 + [False] * 3
    assert {(row["seeds"], row["scale"]) for row in rows} == {("2", "tiny")}


@pytest.mark.slow
def test_the_report_has_its_table_and_its_figure(repository):
    (study,) = (study for study in gather(repository.folder, NOW).further if study.name == "of_a_test")
    part = study.parts["temperature"]
    assert [row[0].text for row in part.gains.rows] == ["uniform"] * 3 + ["ring"] * 3
    assert part.gains.caption.endswith("stages/of_a_test/metrics/temperature.csv: shapes, tiny, 2 seeds")
    assert ">temperature<" in part.figure.svg
