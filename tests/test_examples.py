"""Programs that use the library, as tests/examples has them: each learns."""

import math
import os
import subprocess

import pytest
import warm
from by_path import ROOT
from test_public import EXAMPLES, NAMES
from without import run_without


def printed(name):
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [warm.folder() / "python", EXAMPLES / name]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def losses(printed):
    return [float(line.removesuffix(" nats")) for line in printed.splitlines()]


def test_ring_negatives_in_a_plain_loop_learn_without_a_package_of_an_extra(tmp_path):
    """The traceback names the chain of imports that led to one."""
    extras = ["pydantic", "dvc", "mlflow", "yaml", "tqdm", "jinja2", "matplotlib"]
    example = f"exec(open({str(EXAMPLES / 'plain_loop.py')!r}).read())"
    done = run_without(extras, ["-c", f"import annulus; {'; '.join(NAMES)}; {example}"], tmp_path)
    assert done.returncode == 0, done.stderr
    found = losses(done.stdout)
    assert len(found) == 8
    assert found == sorted(found, reverse=True)
    assert found[-1] < found[0] / 2


def test_ring_negatives_in_lightly_s_moco_learn_to_tell_images_apart():
    pytest.importorskip("lightly", reason="lightly is not installed; it comes with `make install`")
    found = losses(printed("lightly_moco.py"))
    assert len(found) == 48
    first, last = (sum(some) / 4 for some in (found[4:8], found[-4:]))  # the queue's keys are random until it is full
    assert last < first - 0.7
    assert last < math.log(65) - 1.5


def test_ring_negatives_in_a_lightning_module_learn_to_tell_images_apart(tmp_path):
    pytest.importorskip("pytorch_lightning", reason="pytorch_lightning is not installed; it comes with `make install`")
    found = losses("\n".join(line for line in printed("lightning_module.py").splitlines() if "nats" in line))
    assert len(found) == 48
    first, last = (sum(some) / 4 for some in (found[4:8], found[-4:]))  # the queue's keys are random until it is full
    assert last < first - 0.2
    assert last < math.log(65) - 0.6
