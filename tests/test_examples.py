"""Programs in tests/examples that use the library: each learns, and the library alone runs on any system."""

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


def run_example(name):
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [warm.folder() / "python", EXAMPLES / name]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def losses(output):
    return [float(line.removesuffix(" nats")) for line in output.splitlines()]


def test_ring_negatives_in_a_plain_loop_learn_without_a_package_of_an_extra(tmp_path):
    """If the library imports an extra, the traceback names the chain of imports."""
    extras = ["pydantic", "dvc", "mlflow", "yaml", "tqdm", "jinja2", "matplotlib"]
    example = f"exec(open({str(EXAMPLES / 'plain_loop.py')!r}).read())"
    done = run_without(extras, ["-c", f"import annulus; {'; '.join(NAMES)}; {example}"], tmp_path)
    assert done.returncode == 0, done.stderr
    nats = losses(done.stdout)
    assert len(nats) == 8
    assert nats == sorted(nats, reverse=True)
    assert nats[-1] < nats[0] / 2


@pytest.mark.slow
def test_ring_negatives_in_lightly_s_moco_learn_to_tell_images_apart():
    pytest.importorskip("lightly", reason="lightly is not installed; it comes with `make install`")
    nats = losses(run_example("lightly_moco.py"))
    assert len(nats) == 48
    first, last = (sum(some) / 4 for some in (nats[4:8], nats[-4:]))  # the queue's keys are random until it is full
    assert last < first - 0.7
    assert last < math.log(65) - 1.5


@pytest.mark.slow
def test_ring_negatives_in_a_lightning_module_learn_to_tell_images_apart(tmp_path):
    pytest.importorskip("pytorch_lightning", reason="pytorch_lightning is not installed; it comes with `make install`")
    nats = losses("\n".join(line for line in run_example("lightning_module.py").splitlines() if "nats" in line))
    assert len(nats) == 48
    first, last = (sum(some) / 4 for some in (nats[4:8], nats[-4:]))  # the queue's keys are random until it is full
    assert last < first - 0.2
    assert last < math.log(65) - 0.6


def ddp_moco():
    """Runs the example in this process of a group; returns its output and its method's state."""
    output = StringIO()
    group = mock.patch.multiple(dist, init_process_group=mock.DEFAULT, destroy_process_group=mock.DEFAULT)
    with group, redirect_stdout(output), torch.random.fork_rng():
        names = runpy.run_path(str(EXAMPLES / "ddp_moco.py"))
    return output.getvalue(), names["method"].state_dict()


@pytest.mark.slow
def test_moco_learns_under_distributed_data_parallel_and_all_processes_hold_the_same():
    (output, state), (silent, other) = together(ddp_moco)
    nats = losses(output)
    assert (len(nats), silent) == (48, "")
    first, last = (sum(some) / 4 for some in (nats[4:8], nats[-4:]))  # the queue's keys are random until it is full
    assert last < first - 0.2
    assert last < math.log(65) - 0.6
    assert state["queues.0.images"].sort().values.tolist() == list(range(64))  # images of an epoch, from both processes
    torch.testing.assert_close(other, state, rtol=0, atol=0)


@pytest.mark.slow
def test_a_network_of_one_s_own_is_evaluated_in_a_few_lines():
    percents = dict(line.removesuffix(" %").rsplit(" ", 1) for line in run_example("evaluate.py").splitlines())
    assert percents.keys() == {"kNN", "linear probe"}
    assert float(percents["kNN"]) > 50
    assert float(percents["linear probe"]) > 80  # 10 classes


# Names that Windows lacks. macOS lacks `sched_getaffinity` and Triton too.
LINUX_MODULES = ["fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "triton", "tty"]
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
    done = run_without([*LINUX_MODULES, "dvc", "mlflow", "faiss", "tqdm"], arguments, tmp_path, python=sys.executable)
    assert done.returncode == 0, done.stderr
    assert len(losses(done.stdout)) == 8
