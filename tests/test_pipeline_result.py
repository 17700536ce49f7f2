"""The table of the main line's numbers, which `make repro` prints last."""

import subprocess
import sys

import pytest
import yaml

from annulus_lab.pipeline.result import main, result_text

PARAMS = {"sampler": "ring", "anneal": "linear", "seeds": [0, 1]}
KNN = {"number": "knn_top1_percent", "mean": "60.35", "interval": "2.11"}
BOUND = {"number": "bound_nats", "mean": "0.5047", "interval": ""}
NEXT = ["next, in a shell with `. .venv/bin/activate`:", "dvc exp run -S sampler=cave", "make compare BASE=HEAD"]


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout in which the main line has run; DVC sorts the parameters in its lock."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DVC_EXP_NAME", raising=False)
    stages = {"dvc.yaml": [*PARAMS], "dvc.lock": {"params.yaml": PARAMS}}
    for name, params in stages.items():
        (tmp_path / name).write_text(yaml.safe_dump({"stages": {"summary": {"params": params}}}))
    (tmp_path / "metrics").mkdir()
    rows = [",".join(row.values()) for row in ({name: name for name in KNN}, KNN, BOUND)]
    (tmp_path / "metrics/summary.csv").write_text("\n".join([*rows, ""]))
    return tmp_path


def test_the_parameters_stand_beside_the_numbers_that_they_made_and_two_commands_end_the_screen(checkout, capsys):
    main()
    assert capsys.readouterr().out.splitlines() == [
        "",
        "sampler     ring      knn_top1_percent            60.35 ± 2.11",
        "anneal      linear    bound_nats                 0.5047",
        "seeds       [0, 1]",
        "                      ±: 95 % interval over seeds, of accuracies also over test images",
        "",
        *NEXT,
    ]


@pytest.mark.parametrize(("chosen", "offered"), [("uniform", "cave"), ("cave", "ring")])
def test_the_run_that_is_offered_has_another_sampler(chosen, offered):
    assert f"\ndvc exp run -S sampler={offered}\n" in result_text(PARAMS | {"sampler": chosen}, [KNN])


def test_an_experiment_is_compared_with_head_and_the_next_one_with_the_experiment(monkeypatch):
    monkeypatch.setenv("DVC_EXP_NAME", "noisy-coho")
    commands = ["make compare BASE=HEAD", "dvc exp run -S sampler=cave", "make compare BASE=noisy-coho"]
    assert result_text(PARAMS, [KNN]).splitlines()[-3:] == commands


def test_pictures_are_named_where_no_image_has_a_class():
    assert (
        "an encoder that has learned something is above pixels and colour. Pictures: metrics/main/neighb"
        in result_text(PARAMS, [BOUND])
    )
    assert "accuracy;" not in result_text(PARAMS, [KNN])


@pytest.mark.parametrize("missing", ["dvc.lock", "metrics/summary.csv"])
def test_a_missing_file_is_named_with_the_command_that_makes_it(checkout, missing):
    (checkout / missing).unlink()
    with pytest.raises(SystemExit, match=rf"no numbers yet \(FileNotFoundError: .*{missing}'\); run `dvc repro`"):
        main()


def test_the_table_takes_no_second_since_neither_torch_nor_pydantic_is_imported():
    loaded = "import sys, annulus_lab.pipeline.result; print({'torch', 'pydantic', 'numpy'} & {*sys.modules})"
    assert subprocess.check_output([sys.executable, "-c", loaded], text=True) == "set()\n"
