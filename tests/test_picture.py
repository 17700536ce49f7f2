"""The picture of the annulus: its points are those of the samplers, in their true distances."""

import re
from xml.etree import ElementTree

import pytest
import torch
import torch.nn.functional as F
from settings import ROOT

from annulus.config.file import load_params
from annulus.config.negatives import RingParams
from annulus.diagnostics.measures import Run, Snapshot
from annulus.errors import InputError
from annulus.picture import COLOURS, main, scene_of, svg

IMAGES, QUERIES = 300, 6


@pytest.fixture
def labels():
    return torch.arange(IMAGES) % 4


@pytest.fixture
def run():
    random = torch.Generator().manual_seed(0)
    rows = F.normalize(torch.randn(IMAGES, 3, generator=random), dim=1)
    self_index = torch.arange(QUERIES) * 7
    queries = F.normalize(rows[self_index] + 0.01 * torch.randn(QUERIES, 3, generator=random), dim=1)
    snapshot = Snapshot(1, queries, queries, rows, rows, self_index, whole=True, crossed=False)
    return Run([snapshot], torch.arange(IMAGES), self_index, IMAGES)


@pytest.fixture
def samplers():
    tree = load_params(ROOT / "params.yaml").samplers
    return tree.model_copy(update={"cave": tree.cave.model_copy(update={"clusters": 40})})


def test_the_sets_are_the_closest_ranks_and_angles_are_true(run, labels, samplers):
    scene = scene_of(run, labels, samplers, seed=0)
    snapshot = run.snapshots[0]
    angles = (snapshot.queries @ snapshot.memory.T).clamp(-1, 1).arccos().rad2deg()
    query = next(q for q in range(QUERIES) if torch.allclose(angles[q], scene.angle, atol=1e-3))
    self_index = int(snapshot.self_index[query])
    ranked = [
        row for row in scene.angle.argsort().tolist() if row != self_index
    ]  # 299 others: 2 in the inner ball, 29 in all

    assert set(scene.members["inner"].nonzero()[:, 0].tolist()) == set(ranked[:2])
    assert set(scene.members["ball"].nonzero()[:, 0].tolist()) == set(ranked[:29])
    assert set(scene.members["ring"].nonzero()[:, 0].tolist()) == set(ranked[2:29])
    assert scene.members["uniform"].sum() == IMAGES - 1
    assert scene.members["cave"].sum() < 29
    assert not (scene.members["cave"] & ~scene.members["ball"]).any()
    assert scene.positive == pytest.approx((scene.angle[self_index].item(), scene.direction[self_index].item()))


def test_the_query_s_cluster_is_on_the_left(run, labels, samplers):
    scene = scene_of(run, labels, samplers, seed=0)
    cluster = scene.members["ball"] & ~scene.members["cave"]
    assert scene.direction[cluster].cos().mean() < -0.1


def test_the_shares_of_the_query_s_class_are_means_over_all_queries(run, labels, samplers):
    scene = scene_of(run, labels, samplers, seed=0)
    self_index = run.snapshots[0].self_index
    others = [(labels == labels[row]).sum().item() - 1 for row in self_index]
    assert scene.same_class_percent["uniform"] == pytest.approx(100 * sum(others) / len(others) / (IMAGES - 1))


def test_every_row_within_the_rim_is_one_dot(run, labels, samplers):
    scene = scene_of(run, labels, samplers, seed=0)
    drawn = ElementTree.fromstring(svg(scene))
    dots = {}
    for path in drawn.iter("{http://www.w3.org/2000/svg}path"):
        if path.get("class") == "d":
            dots.setdefault(path.get("stroke"), []).append(path.get("d").count("M"))
    assert dots["var(--ring)"] == [27, 27]  # in the large disc and in the small one
    assert dots["var(--ball)"] == [2, 29]  # the inner ball; the ball in its own disc
    assert dots["var(--cave)"] == [int(scene.members["cave"].sum())]
    rim = 2.0 * scene.angle[scene.members["ball"]].max()
    assert dots["var(--far)"][0] == int((~scene.members["ball"] & (scene.angle <= rim)).sum())


def test_its_words_and_colours_are_there_for_light_and_dark(run, labels, samplers):
    content = svg(scene_of(run, labels, samplers, seed=0))
    for word in ("query", "positive", "annulus", "inner ball", "uniform", "ball", "ring", "cave", "closest 1 %"):
        assert f">{word}" in content or f"{word}<" in content or f"{word}:" in content
    assert set(re.findall(r"var\(--(\w+)\)", content)) == set(COLOURS)
    assert "prefers-color-scheme:dark" in content


def test_the_file_in_git_is_small_and_whole():
    content = (ROOT / "metrics" / "figures" / "annulus.svg").read_text()
    assert len(content) < 150_000
    assert "annulus" in ElementTree.fromstring(content)[0].text


def test_without_an_own_row_nearby_it_says_so(run, labels, samplers):
    snapshot = run.snapshots[0]
    far = Snapshot(
        1, -snapshot.queries, snapshot.second, snapshot.current, snapshot.memory, snapshot.self_index, True, False
    )
    with pytest.raises(InputError, match="none of 6 queries finds its own row within the inner ball; train longer"):
        scene_of(Run([far], run.images, run.query_images, IMAGES), labels, samplers, seed=0)


def test_a_sampler_without_candidates_is_named(run, labels, samplers):
    narrow = samplers.model_copy(update={"ring": RingParams(inner=0.001, outer=0.1)})
    with pytest.raises(InputError, match=r"no picture: .*hold none of the memory's 299 other rows"):
        scene_of(run, labels, narrow, seed=0)


def test_without_a_run_it_is_one_sentence(tmp_path):
    (tmp_path / "params.yaml").write_text((ROOT / "params.yaml").read_text())
    with pytest.raises(SystemExit, match=r"ERROR: .*snapshots\.safetensors is missing"):
        main(["--root", str(tmp_path), "--svg", str(tmp_path / "a.svg")])
    assert not (tmp_path / "a.svg").exists()
