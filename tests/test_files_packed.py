"""Packed files: contents come back, equal contents have equal bytes, and a fault is named."""

import pickle

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

from annulus.errors import InputError
from annulus.files import packed
from annulus.files.packed import Damaged, read_packed, write_packed

ABOUT = {"classes": ["café", "dog"], "digest": "0f", "size": {"b": 1, "a": None}}


@pytest.fixture
def tensors(generator):
    images = torch.randint(0, 256, (5, 3, 4, 4), generator=generator, dtype=torch.uint8)
    return {
        "images": images,
        "labels": torch.arange(5),
        "map": torch.randn(5, 2, 2, 2, generator=generator).half(),
        "transposed": torch.randn(2, 3, generator=generator).t(),
        "halves": torch.arange(6)[:3],
        "none": torch.empty(0, 3, 4, 4, dtype=torch.uint8),
        "learned": torch.ones(2, requires_grad=True),
    }


def test_what_was_written_is_read_back_and_the_same_bytes_whatever_the_order_and_the_name(tmp_path, tensors):
    write_packed(tmp_path / "new" / "a", tensors, ABOUT)
    write_packed(tmp_path / "b", dict(reversed(tensors.items())), dict(reversed(ABOUT.items())))
    assert (tmp_path / "new" / "a").read_bytes() == (tmp_path / "b").read_bytes()
    got, about = read_packed(tmp_path / "b")
    assert about == ABOUT
    assert got.keys() == tensors.keys()
    for name, tensor in tensors.items():
        torch.testing.assert_close(got[name], tensor.detach(), rtol=0, atol=0)


def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch):
    def full(*_, **__):
        raise SafetensorError("No space left on device")

    monkeypatch.setattr(packed, "save_file", full)
    (tmp_path / "train.safetensors").write_text("old")
    with pytest.raises(InputError, match=r"cannot write .*train\.safetensors: No space .* Free some"):
        write_packed(tmp_path / "train.safetensors", {"rows": torch.zeros(1000)}, {})
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


def test_a_file_that_annulus_did_not_write_is_named(tmp_path):
    save_file({"rows": torch.zeros(10)}, tmp_path / "other.safetensors")
    for fault in ("missing", "other"):
        with pytest.raises(
            InputError, match=rf"{fault}\.safetensors is missing or not .*; give the path of one \(in a checkout of"
        ):
            read_packed(tmp_path / f"{fault}.safetensors")


def test_a_refusal_comes_out_of_another_process_as_it_was(tmp_path):
    again = pickle.loads(pickle.dumps(Damaged(tmp_path, "is empty", "prepare")))
    way_out = "write it again (in a checkout of annulus `dvc repro --force prepare`)"
    assert (type(again), str(again)) == (Damaged, f"{tmp_path}: is empty; {way_out}")
