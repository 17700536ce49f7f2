"""Encoders to and from a repository of the Hub, by huggingface_hub against a server on this machine."""

import json

import pytest
from hub import COMMIT, hub
from test_detection_levels import trained

import annulus
from annulus.encoders.saved import save_encoder
from annulus.errors import InputError
from annulus.export import hub as export_hub

constants = pytest.importorskip("huggingface_hub.constants", reason="huggingface_hub is not installed")


@pytest.fixture
def at(tmp_path, monkeypatch):
    """Sets the address of the Hub, which huggingface_hub otherwise reads from HF_ENDPOINT as it is imported."""

    def at(address):
        monkeypatch.setattr(constants, "ENDPOINT", address)
        template = f"{address}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))

    return at


def test_an_encoder_goes_to_a_repository_and_comes_back_bit_for_bit(tmp_path, at):
    encoder = trained(architecture="convnet")
    with hub(tmp_path / "hub") as address:
        at(address)
        place = annulus.push_to_hub(encoder, "me/mine", licence="MIT", private=True, token="hf_x")
        assert place == f"{address}/me/mine/commit/{COMMIT}"
        loaded = annulus.from_pretrained("me/mine")
        with pytest.raises(InputError, match=r"me/others: the Hub gave no encoder \(RepositoryNotFoundError: "):
            annulus.from_pretrained("me/others")
        with pytest.raises(InputError, match=r"too/many/names: the Hub did not take the encoder \(HFValidationError: "):
            annulus.push_to_hub(encoder, "too/many/names", token="hf_x")
    folder = tmp_path / "hub/me/mine"
    assert "private" in (folder / ".asked").read_text()
    assert {path.name for path in folder.iterdir()} == {".asked", "README.md", "config.json", "model.safetensors"}
    assert 'license: "mit"' in (folder / "README.md").read_text()
    for name, each in (("before", encoder), ("after", loaded)):
        save_encoder(each, tmp_path / f"{name}.safetensors")
    for ending in ("safetensors", "json"):
        assert (tmp_path / f"after.{ending}").read_bytes() == (tmp_path / f"before.{ending}").read_bytes()


def test_a_download_with_code_needs_trust(tmp_path, at):
    described = {"network": "nets:build", "settings": None, "preprocessing": None, "dim": 4, "head": None, "pool": None}
    folder = tmp_path / "hub/me/mine"
    folder.mkdir(parents=True)
    save_encoder(trained(architecture="convnet"), folder / "model.safetensors")
    (folder / "model.json").unlink()
    (folder / "config.json").write_text(json.dumps(described))
    (folder / "nets.py").write_text("raise SystemExit('executed')")
    with hub(tmp_path / "hub") as address:
        at(address)
        with pytest.raises(InputError, match="network is built by code, nets:build, and nothing is executed"):
            annulus.from_pretrained("me/mine")
    assert not [*(tmp_path / "cache").rglob("nets.py")], "only weights and configuration are downloaded"


def test_without_huggingface_hub_a_sentence_names_it(monkeypatch):
    monkeypatch.setattr(export_hub, "find_spec", lambda name: None)
    for call in (lambda: annulus.from_pretrained("a/b"), lambda: annulus.push_to_hub(trained(), "a/b")):
        with pytest.raises(InputError, match="the Hub needs huggingface_hub; pip install huggingface_hub"):
            call()


def test_without_an_answer_a_sentence_names_the_repository(at):
    at("http://127.0.0.1:1")
    with pytest.raises(InputError, match=r"me/mine: the Hub gave no encoder \("):
        annulus.from_pretrained("me/mine")
