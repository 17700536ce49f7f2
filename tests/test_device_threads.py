"""Usable cores of a process, with and without control groups."""

import os

import pytest
import torch

from annulus.device import threads as pool
from annulus.device.device import pick_device


@pytest.mark.parametrize(
    ("own", "files", "expected"),
    [
        ("0::/", {"cpu.max": "max 100000"}, 8),
        ("0::/", {"cpu.max": "200000 100000"}, 2),
        ("0::/", {"cpu.max": "50000 100000"}, 1),
        ("0::/slice/job", {"slice/cpu.max": "250000 100000", "slice/job/cpu.max": "max 100000"}, 3),
        ("0::/../other", {"cpu.max": "no number"}, 8),
        ("9:name=systemd:/\n3:cpu,cpuacct:/docker/abc", {"cpu/cpu.cfs_quota_us": "400000"}, 4),
        ("3:cpu:/job", {"cpu/job/cpu.cfs_quota_us": "-1"}, 8),
        (None, {}, 8),
    ],
)
def test_of_a_container_or_a_job_its_share_of_the_cores_counts(own, files, expected, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)))
    monkeypatch.setattr(pool, "OWN_GROUPS", tmp_path / "own")
    monkeypatch.setattr(pool, "GROUPS", tmp_path / "groups")
    if own is not None:
        (tmp_path / "own").write_text(f"{own}\n")
    for name, text in files.items():
        path = tmp_path / "groups" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
        if name.endswith("quota_us"):
            path.with_name("cpu.cfs_period_us").write_text("100000\n")
    assert pool.cores() == expected


def test_torch_and_the_threads_take_no_more_than_the_cores(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1})
    torch.set_num_threads(5)
    try:
        assert pool.threads() == 2
        pick_device()
        assert torch.get_num_threads() == 2
        torch.set_num_threads(1)
        pick_device()
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(1)
