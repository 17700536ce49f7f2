"""Programs that use the library, as tests/examples has them: each learns, and the library alone runs on any system."""

import math
import os
import re
import runpy
import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from unittest import mock

import pytest
import torch
import torch.distributed as dist
import warm
from by_path import ROOT
from gloo import together
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


@pytest.mark.slow
def test_ring_negatives_in_lightly_s_moco_learn_to_tell_images_apart():
    pytest.importorskip("lightly", reason="lightly is not installed; it comes with `make install`")
    found = losses(printed("lightly_moco.py"))
    assert len(found) == 48
    first, last = (sum(some) / 4 for some in (found[4:8], found[-4:]))  # the queue's keys are random until it is full
    assert last < first - 0.7
    assert last < math.log(65) - 1.5


@pytest.mark.slow
def test_ring_negatives_in_a_lightning_module_learn_to_tell_images_apart(tmp_path):
    pytest.importorskip("pytorch_lightning", reason="pytorch_lightning is not installed; it comes with `make install`")
    found = losses("\n".join(line for line in printed("lightning_module.py").splitlines() if "nats" in line))
    assert len(found) == 48
    first, last = (sum(some) / 4 for some in (found[4:8], found[-4:]))  # the queue's keys are random until it is full
    assert last < first - 0.2
    assert last < math.log(65) - 0.6


def ddp_moco():
    """What the example prints in this process of a group, and its method's state."""
    said = StringIO()
    group = mock.patch.multiple(dist, init_process_group=mock.DEFAULT, destroy_process_group=mock.DEFAULT)
    with group, redirect_stdout(said), torch.random.fork_rng():
        found = runpy.run_path(str(EXAMPLES / "ddp_moco.py"))
    return said.getvalue(), found["method"].state_dict()


@pytest.mark.slow
def test_moco_learns_under_distributed_data_parallel_and_all_processes_hold_the_same():
    (said, state), (silent, other) = together(ddp_moco)
    found = losses(said)
    assert (len(found), silent) == (48, "")
    first, last = (sum(some) / 4 for some in (found[4:8], found[-4:]))  # the queue's keys are random until it is full
    assert last < first - 0.2
    assert last < math.log(65) - 0.6
    assert state["queues.0.images"].sort().values.tolist() == list(range(64))  # an epoch's, of both processes
    torch.testing.assert_close(other, state, rtol=0, atol=0)


@pytest.mark.slow
def test_a_network_of_one_s_own_is_evaluated_in_a_few_lines():
    found = dict(line.removesuffix(" %").rsplit(" ", 1) for line in printed("evaluate.py").splitlines())
    assert found.keys() == {"kNN", "linear probe"}
    assert float(found["kNN"]) > 50
    assert float(found["linear probe"]) > 80  # 10 classes


# Names that Windows has not; macOS has no `sched_getaffinity` either, and neither has Triton.
OF_LINUX = ["fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "triton", "tty"]
LACKING = {
    "os": [
        "fork",
        "getuid",
        "killpg",
        "mkfifo",
        "preadv",
        "sched_getaffinity",
        "setsid",
        "statvfs",
        "sysconf",
        "uname",
    ],
    "signal": ["SIGALRM", "SIGCHLD", "SIGKILL", "SIGUSR1", "alarm", "pthread_sigmask", "setitimer"],
}
ELSEWHERE = f"""
import os, runpy, signal, sys
import numpy, safetensors.torch, scipy.stats, torch, torchvision  # others' packages may ask which system it is
for name in {LACKING["os"]}:
    delattr(os, name)
for name in {LACKING["signal"]}:
    delattr(signal, name)
import annulus
{"; ".join(NAMES)}
annulus.views.augment(torch.zeros(9, 3, 20, 20, dtype=torch.uint8), "strong", 16, torch.Generator())
runpy.run_path({str(EXAMPLES / "plain_loop.py")!r})
config = annulus.EncoderConfig("convnet", "imagenet", "linear", 4, 16, None, (0.5, 0.5, 0.5), (0.2, 0.2, 0.2))
annulus.save_encoder(annulus.build_encoder(config, seed=0), sys.argv[1] + "/encoder.safetensors")
annulus.load_encoder(sys.argv[1] + "/encoder.safetensors")
features = annulus.Features({{"pooled": torch.rand(3, 4)}}, labels=torch.arange(3) % 2, classes=("cat", "dog"))
annulus.save_features(sys.argv[1], "train", features)
assert torch.equal(annulus.load_features(sys.argv[1], "train").labels, features.labels)
from importlib import import_module
for name in sys.argv[2:]:
    import_module(name)
"""


@pytest.mark.slow
def test_library_and_the_tests_that_other_systems_run_need_nothing_of_linux(tmp_path):
    listed = re.search(r"^tests=\$\((.*)\)$", (ROOT / ".ci/library").read_text(), re.MULTILINE)[1]
    files = subprocess.check_output(["sh", "-c", listed], cwd=ROOT, text=True).split()
    assert len(files) >= 20
    code = f"import sys; sys.path.append({str(ROOT / 'tests')!r}){ELSEWHERE}"
    arguments = ["-c", code, str(tmp_path), *(Path(file).stem for file in files)]
    done = run_without([*OF_LINUX, "dvc", "mlflow", "faiss", "tqdm"], arguments, tmp_path, python=sys.executable)
    assert done.returncode == 0, done.stderr
    assert len(losses(done.stdout)) == 8
