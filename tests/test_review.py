"""`.ci/review`, the comment of a pull request, with a dvc of three lines that runs no stage."""

import os
import subprocess

import pytest
from checkout import Checkout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sampler", "beginning", "runs"),
    [
        (
            "cav",
            "The change is not compared and not run:\n\n```\n"
            "ERROR: params.yaml: sampler: 'cav' is none of uniform, ball, ring, cave, other-class, mochi; "
            "did you mean 'cave'?\n```\n",
            False,
        ),
        ("cave", "## As committed\n", True),
    ],
)
def test_a_misspelt_selector_is_refused_before_anything_is_compared_or_run(tmp_path, sampler, beginning, runs):
    checkout = Checkout(tmp_path / "checkout")
    checkout.edit("params.yaml", "sampler: ring", f"sampler: {sampler}")
    checkout.commit()
    dvc, called = tmp_path / "bin/dvc", tmp_path / "called"
    dvc.parent.mkdir()
    dvc.write_text(f"#!/bin/sh\necho $1 >> {called}\nexit 1\n")
    dvc.chmod(0o755)
    environment = checkout.command()["env"]
    environment["PATH"] = os.pathsep.join([str(dvc.parent), environment["PATH"]])
    review = [".ci/review", "HEAD~1"]
    done = subprocess.run(review, cwd=checkout.folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith(beginning)
    assert (done.stdout == beginning) is not runs
    assert called.exists() is runs
