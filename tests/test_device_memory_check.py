"""Allocations that exceed the memory are refused before they happen, with the numbers."""

import os
from pathlib import Path

import pytest
import torch
from settings import CPU, run

from annulus.datasets.prepare import prepare_images
from annulus.datasets.settings import GeneratedSettings, PrepareBudget
from annulus.device import memory_check
from annulus.encoders.encoder import build_encoder
from annulus.errors import InputError

GIB = 2**30


def test_what_just_fits_is_accepted_and_a_byte_more_is_refused(monkeypatch):
    monkeypatch.setattr(memory_check, "free_bytes", lambda device: 3 * GIB)
    memory_check.check_space({"bank": 2 * GIB, "queue": GIB}, CPU, "take less")
    with pytest.raises(InputError) as refused:
        memory_check.check_space({"queue": GIB + 1, "bank": 2 * GIB, "nothing": 0}, CPU, "take less")
    assert str(refused.value) == (
        "3.0 GiB are needed of memory, where 3.0 GiB are free: bank 2.0 GiB, queue 1.0 GiB; take less"
    )


@pytest.mark.parametrize(("limit", "expected"), [("3000000", 2500000), ("max", None)])
def test_a_container_s_own_limit_counts_without_files_that_are_kept_in_memory(limit, expected, monkeypatch):
    texts = {"memory.max": limit, "memory.current": "1000000", "meminfo": "MemTotal: 9 kB\nMemAvailable: 4096 kB\n"}
    texts["memory.stat"] = "anon 500000\ninactive_file 300000\nactive_file 200000\n"
    assert 0 < memory_check.free_bytes(CPU) <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    monkeypatch.setattr(Path, "read_text", lambda path, encoding: texts[path.name])
    assert memory_check.free_bytes(CPU) == (expected or 4096 * 1024)


def test_images_that_no_machine_holds_are_refused_before_work():
    shapes = GeneratedSettings(image_size=1024, view_size=1024, validation_fraction=0.1)
    sentence = (
        r"^[\d,]+\.\d GiB are needed of memory, where [\d,.]+ GiB are free: train images \(1,000,000,000 of 1024 px\) "
        r"5,859,375\.0 GiB, test images \(10 of 1024 px\) 0\.1 GiB; lower the numbers of images in "
        r"scales\.SCALE\.prepare, or datasets\.shapes\.image_size$"
    )
    with pytest.raises(InputError, match=sentence):
        prepare_images("shapes", shapes, PrepareBudget(train_images=10**9, test_images=10, unlabelled_images=None), 0)


# ResNet-50 without its classifier, with the head: weights, gradients, momentum, and the key encoder.
RESNET50 = 4 * 4 * (25_557_032 - 2_049_000 + 2048 * 8 + 8)


@pytest.mark.parametrize(
    ("changes", "needs"),
    [
        ({"method": "ir"}, {"bank (70 x 8)": 70 * 8 * 4, "scores of a batch (16 x 69)": 16 * 69 * 8}),
        ({"split": "lab"}, {"bank (70 x 16)": 70 * 16 * 4, "negatives of a batch (16 x 12)": 16 * 12 * 12}),
        ({"method": "moco"}, {"queue (32 x 8)": 32 * (8 * 4 + 8), "negatives of a batch (16 x 0)": 0}),
        ({"method": "moco", "backbone": "resnet50"}, {"networks (4 x 23,524,424)": RESNET50}),
        ({"backbone": "resnet18", "optimizer.momentum": 0.0}, {"networks (2 x 11,180,616)": 89_444_928}),
        (
            {"method": "simclr"},
            {"images (70 of 16 px)": 70 * 3 * 256, "views of a batch (2 x 16 of 16 px)": 32 * 768 * 4},
        ),
        ({"method": "moco-jigsaw"}, {"views of a batch (3 x 16 of 16 px)": 48 * 768 * 4}),
    ],
)
def test_a_training_needs_what_it_keeps_and_a_batch_of_scores(changes, needs, monkeypatch):
    class Stopped(Exception):
        pass

    def stop(sizes, device, way_out):
        raise Stopped(sizes)

    monkeypatch.setattr("annulus.training.preflight.check_space", stop)
    with pytest.raises(Stopped) as stopped:
        run(changes)
    sizes = stopped.value.args[0]
    assert sizes | needs == sizes
    assert sum(name.startswith(("bank", "queue")) for name in sizes) == (changes.get("method") != "simclr")


def test_a_training_that_memory_cannot_hold_is_refused_before_the_encoder_is_allocated(monkeypatch):
    def build_on_meta(config, seed):
        assert torch.get_default_device().type == "meta"
        return build_encoder(config, seed)

    monkeypatch.setattr(memory_check, "free_bytes", lambda device: 10_000)
    monkeypatch.setattr("annulus.training.preflight.build_encoder", build_on_meta)
    with pytest.raises(InputError, match=r"0\.0 GiB are free: .*; lower batch_size, negatives or queue in scales\."):
        run({})
