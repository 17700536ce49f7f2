"""`annulus check-gpu`: each part on a pretended GPU, its file, its table, and its error without a GPU."""

import json
import os
import re
from unittest import mock

import pytest
import torch
from interpreted import needs_triton
from pretended_gpu import PretendedGPU, exact_batch_norm, pretended_kernels
from without import run_without

from annulus.device import device as devices
from annulus.device.machine_code import MachineCode
from annulus.encoders import grouped_pass
from annulus.errors import InputError
from annulus.gpu import agreement, bits, check, clock, kernel_code, trainings
from annulus.gpu.result import FAST, SLOW, WRONG, CheckResult, against
from annulus.negatives import threshold
from annulus.training.loop import Training

SMALL = trainings.Sizes(
    selections=((4, 300),),
    dim=8,
    draws=16,
    calls=1,
    images=64,
    side=16,
    batch=8,
    queue=64,
    steps=1,
    architecture="convnet",
    photos=40,
    photo_side=64,
    photo_view=32,
)


@pytest.fixture
def pretended(monkeypatch):
    """Runs a part on a pretended GPU, with its kernels or their substitutes."""
    monkeypatch.setattr(devices, "_compute_deterministically", lambda: None)
    monkeypatch.setattr(bits, "STEPS", 2)

    def run(part):
        with PretendedGPU() as gpu, pretended_kernels(gpu):
            return [CheckResult(*row) for row in check.PARTS[part](gpu.device, SMALL)]

    return run


@needs_triton
@pytest.mark.slow
@pytest.mark.parametrize("part", [name for name in check.PARTS if name != "kernels"])
def test_a_part_finds_nothing_wrong_where_the_gpu_is_pretended(part, pretended):
    rows = pretended(part)
    assert rows
    assert not [row for row in rows if row.verdict == WRONG]


@needs_triton
def test_kernels_that_spill_are_slow_and_those_that_do_not_compile_are_wrong(monkeypatch):
    answers = iter([MachineCode(40, 0, 900, 0, 0), MachineCode(128, 400, 14_000, 464, 0), RuntimeError("a\nno ptxas")])

    def machine_code(form, architecture):
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    three = kernel_code.forms()[:3]
    monkeypatch.setattr(kernel_code, "machine_code", machine_code)
    monkeypatch.setattr(kernel_code, "forms", lambda: three)
    rows = list(kernel_code.part(torch.device("cuda"), SMALL))
    assert [row.verdict for row in rows] == [FAST, SLOW, WRONG]
    assert rows[2].number == "RuntimeError: no ptxas"


@needs_triton
def test_a_kernel_that_selects_other_columns_is_wrong(pretended):
    with mock.patch.object(threshold, "by_kernels", return_value=torch.zeros(1, 1).long()):
        rows = pretended("agreement")
    assert [row.verdict for row in rows if row.what == "select, with NaN"] == [WRONG]


@needs_triton
@pytest.mark.slow
def test_a_kernel_that_normalises_otherwise_is_wrong():
    def other(x, weight, bias, eps, measured):
        return exact_batch_norm(x, weight, bias + 0.1, eps, measured)

    with PretendedGPU() as gpu, mock.patch.object(grouped_pass, "by_kernels", other):
        rows = list(agreement.batch_norms(gpu.device))
    assert {row.verdict for row in rows} == {WRONG}


def test_parts_that_are_done_do_not_run_again_and_the_file_grows_as_they_end(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(check, "PARTS", dict.fromkeys(["one", "two"]))
    out, calls = tmp_path / "check-gpu.json", []

    def run(name):
        calls.append((name, list(json.loads(out.read_text())["parts"]) if out.exists() else []))
        return [CheckResult(name, "1 image/s", FAST)]

    assert not check.check(out, 0.0, run)
    assert "left: one, two; run the same command again to continue" in capsys.readouterr().out
    assert check.check(out, 60.0, run)
    assert check.check(out, 60.0, run)
    assert calls == [("one", []), ("two", ["one"])]
    assert capsys.readouterr().out.splitlines()[-1] == "0 WRONG, 0 slow, 0 right, 2 fast"
    monkeypatch.setattr(check, "machine", lambda: {"device": "another"})
    assert check.check(out, 60.0, run)
    assert [name for name, _ in calls] == ["one", "two"] * 2


def test_a_part_that_crashed_runs_again_and_only_what_is_right_ends_well(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(check, "PARTS", dict.fromkeys(["one", "two"]))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(check, "machine", lambda: {"device": "this"})
    calls, ends = [], iter([check.Crashed("ended with status 1"), WRONG, FAST])

    def run(name):
        calls.append(name)
        end = next(ends)
        if isinstance(end, Exception):
            raise end
        return [CheckResult(name, "1 image/s", end)]

    monkeypatch.setattr(check, "in_own_process", run)
    for line in ("2 WRONG, 0 slow, 0 right, 0 fast", "1 WRONG, 0 slow, 0 right, 1 fast"):
        with pytest.raises(SystemExit, match="True"):
            check.main(["--out", str(tmp_path / "check-gpu.json")])
        assert capsys.readouterr().out.splitlines()[-1] == line
    assert calls == ["one", "two", "one"]


def test_the_table_has_the_machine_and_each_row_with_what_is_used():
    rows = [["select by kernels", "2 products", SLOW, "used"], ["first loss, ir", "equal", "right", ""]]
    assert check.table({"device": "H100", "code": {"a.py": "1"}}, {"one": {"rows": rows}}).splitlines() == [
        "device H100",
        "select by kernels  2 products  slow   used",
        "first loss, ir     equal       right",
        "0 WRONG, 1 slow, 1 right, 0 fast",
    ]


def test_a_part_in_its_own_process_prints_its_rows(monkeypatch, capsys):
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(check, "pick_device", lambda: torch.device("cpu"))
    monkeypatch.setattr(check, "PARTS", {"one": lambda device, sizes: iter([CheckResult("a", "1 s", FAST)])})
    check.main(["--part", "one"])
    assert json.loads(capsys.readouterr().out) == [["a", "1 s", FAST, ""]]


@pytest.mark.parametrize("before", [None, "no"])
def test_the_same_bits_are_asked_for_in_their_part_alone(before, monkeypatch):
    monkeypatch.setattr(devices, "_compute_deterministically", lambda: torch.use_deterministic_algorithms(True))
    monkeypatch.delenv("ANNULUS_DETERMINISTIC", raising=False)
    if before is not None:
        monkeypatch.setenv("ANNULUS_DETERMINISTIC", before)
    with bits.deterministic():
        assert os.environ["ANNULUS_DETERMINISTIC"] == "yes"
    assert os.environ.get("ANNULUS_DETERMINISTIC") == before
    assert not torch.are_deterministic_algorithms_enabled()


def test_a_file_that_is_none_of_the_command_s_is_refused(tmp_path):
    (tmp_path / "check-gpu.json").write_text("[")
    with pytest.raises(InputError, match=r"check-gpu.json cannot be read \(.*\); remove it, or name another file"):
        check.check(tmp_path / "check-gpu.json", 60.0, list)


@pytest.mark.parametrize(
    ("value", "least", "verdict"),
    [
        (2.0, False, FAST),
        (2.2, False, FAST),
        (3.0, False, SLOW),
        (3.0, True, FAST),
        (2.2, True, FAST),
        (2.0, True, SLOW),
    ],
)
def test_a_goal_is_a_limit_or_a_least(value, least, verdict):
    result = against("select", value, 2.2, "products", least=least)
    assert result.verdict == verdict
    assert result.number == f"{value:g} products (goal {'>=' if least else '<='} 2.2)"


def test_seconds_are_those_of_a_call_after_a_few_that_warm_up(monkeypatch):
    called = []
    for calls, warm in ((3, 3), (20, 5)):
        monkeypatch.setattr(clock.time, "perf_counter", iter([10.0, 70.0]).__next__)
        assert clock.seconds_per_call(lambda: called.append(1), calls) == 60 / calls
        assert len(called) == warm + calls
        called.clear()


def test_trainings_are_equal_where_all_their_tensors_are():
    one, other = (mock.Mock(spec=Training, method=torch.nn.Linear(2, 3)) for _ in range(2))
    assert bits.equal(one, one)
    other.method.weight.data.copy_(one.method.weight)
    assert not bits.equal(one, other)


def test_a_part_s_process_gives_its_rows_or_how_it_ended(tmp_path, monkeypatch):
    python = tmp_path / "python"
    monkeypatch.setattr(check.sys, "executable", str(python))
    monkeypatch.setattr(check, "PART_SECONDS", 0.6)
    for script, ended in (("exit 3", "ended with status 3; "), ("exec sleep 60", "did not end in 1 s")):
        python.write_text(f"#!/bin/sh\n{script}\n")
        python.chmod(0o755)
        with pytest.raises(check.Crashed, match=ended):
            check.in_own_process("bits")
    monkeypatch.setattr(check, "PART_SECONDS", 60.0)
    python.write_text("""#!/bin/sh\necho "$@"\necho '[["a", "1 s", "fast", ""]]'\n""")
    assert check.in_own_process("bits") == [CheckResult("a", "1 s", FAST)]


def test_it_needs_torch_and_the_library_alone(tmp_path):
    """Without a GPU it prints one sentence."""
    absent = ["dvc", "mlflow", "pydantic", "yaml", "tqdm", "faiss", "sklearn", "matplotlib"]
    if torch.cuda.is_available():
        pytest.skip("a GPU is here")
    done = run_without(absent, ["-m", "annulus", "check-gpu"], tmp_path)  # imports every part
    assert done.returncode == 1
    assert re.fullmatch(r"ERROR: torch \S+ sees no GPU here; .*\n", done.stderr)
