"""The picture of the annulus: the samplers' points in their true distances."""

import hashlib
import json
import re
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from settings import load
from stated import stated_params

from annulus.diagnostics.measures import RunSnapshots, Snapshot
from annulus.diagnostics.picture import annealing_svg, svg
from annulus.diagnostics.scene import build_moments, build_scene
from annulus.errors import InputError
from annulus.files.images import UNLABELLED, ImageSet, save_images
from annulus.files.store import Resident
from annulus.negatives.samplers import Ring
from annulus_lab.compare.picture import main

IMAGES, QUERIES = 300, 6


LABELS = torch.arange(IMAGES) % 4


@pytest.fixture
def run():
    random = torch.Generator().manual_seed(0)
    rows = F.normalize(torch.randn(IMAGES, 3, generator=random), dim=1)
    self_index = torch.arange(QUERIES) * 7
    queries = F.normalize(rows[self_index] + 0.01 * torch.randn(QUERIES, 3, generator=random), dim=1)
    snapshot = Snapshot(1, queries, queries, rows, rows, self_index, whole=True, crossed=False)
    return RunSnapshots([snapshot], torch.arange(IMAGES), self_index, IMAGES, 0.2)


@pytest.fixture
def samplers():
    tree = load({}).samplers
    cave = replace(tree.cave, clusters=40)
    return SimpleNamespace(uniform=tree.uniform, ball=tree.ball, ring=tree.ring, cave=cave)


@pytest.fixture
def scene(run, samplers):
    return build_scene(run, LABELS, vars(samplers), seed=0)


def test_the_sets_are_the_closest_ranks_angles_are_true_and_the_query_s_cluster_is_on_the_left(run, scene):
    snapshot = run.snapshots[0]
    angles = (snapshot.queries @ snapshot.memory.T).clamp(-1, 1).arccos().rad2deg()
    query = next(q for q in range(QUERIES) if torch.allclose(angles[q], scene.angle, atol=1e-3))
    self_index = int(snapshot.self_index[query])
    ranked = [row for row in scene.angle.argsort().tolist() if row != self_index]
    members = {name: set(some.nonzero()[:, 0].tolist()) for name, some in scene.members.items()}

    assert members["inner"] == set(ranked[:2])  # of 299 others 2 in the inner ball, 29 in all
    assert members["ball"] == set(ranked[:29])
    assert members["ring"] == set(ranked[2:29])
    assert members["uniform"] == set(ranked)
    assert members["cave"] < members["ball"]
    assert scene.positive == pytest.approx((scene.angle[self_index].item(), scene.direction[self_index].item()))
    assert scene.direction[list(members["ball"] - members["cave"])].cos().mean() < -0.1
    path = re.search(r'stroke="var\(--ring\)" stroke-width="4.0" d="(.*?)"', svg(scene))[1]
    dots = torch.tensor([[float(x), float(y)] for x, y in re.findall(r"M(\S+) (\S+)h0", path)])
    angle, direction = scene.angle[scene.members["ring"]], scene.direction[scene.members["ring"]]
    far = 100 * angle / scene.angle[scene.members["ball"]].max()  # the ball has half of the disc's 200 units
    expected = torch.stack([214 + far * direction.cos(), 225 - far * direction.sin()], dim=1)
    torch.testing.assert_close(dots, expected, rtol=0, atol=0.06)
    others = [LABELS.eq(LABELS[row]).sum().item() - 1 for row in snapshot.self_index]  # mean over all queries
    assert scene.same_class_percent["uniform"] == pytest.approx(100 * sum(others) / len(others) / (IMAGES - 1))


def test_the_query_is_one_of_the_last_snapshot_that_finds_its_own_row_within_the_inner_ball(run, samplers, scene):
    last = run.snapshots[0]
    before = replace(last, queries=-last.queries)
    later = build_scene(replace(run, snapshots=[before, last]), LABELS, vars(samplers), seed=0)
    assert torch.equal(later.angle, scene.angle)
    for place in range(QUERIES):
        queries = -last.queries
        queries[place] = last.queries[place]
        alone = replace(run, snapshots=[replace(last, queries=queries)])
        assert build_scene(alone, LABELS, vars(samplers), seed=0).query == place


def test_of_many_snapshots_five_are_shown_from_the_first_to_the_last(run, samplers, scene):
    many = replace(run, snapshots=[replace(run.snapshots[0], epoch=epoch) for epoch in range(9)])
    shares = {"inner_share": samplers.ring.inner, "outer_share": samplers.ring.outer}
    curve = {epoch: dict(shares) for epoch in range(9)}
    moments = build_moments(many, curve, LABELS, samplers.ring, scene.query, seed=0)
    assert [moment.epoch for moment in moments] == [0, 2, 4, 6, 8]


def test_the_annealed_set_has_the_shares_of_its_epoch_around_the_same_query(run, samplers, scene):
    early, late = (replace(run.snapshots[0], epoch=epoch) for epoch in (1, 4))
    halfway = {"inner_share": samplers.ring.inner / 2, "outer_share": (1 + samplers.ring.outer) / 2}
    curve = {1: halfway, 4: {"inner_share": samplers.ring.inner, "outer_share": samplers.ring.outer}}
    both = replace(run, snapshots=[early, late])
    moments = build_moments(both, curve, LABELS, samplers.ring, scene.query, seed=0)
    assert [moment.epoch for moment in moments] == [1, 4]
    assert [int(moment.members.sum()) for moment in moments] == [164 - 1, 27]  # of 299 rows 1 to 164, 2 to 29
    assert torch.equal(moments[1].members, scene.members["ring"])
    assert torch.equal(moments[1].angle, scene.angle)
    drawing = annealing_svg(moments)
    assert "closest 55 % without 0.5 %" in drawing
    assert "closest 10 % without 1 %" in drawing
    with pytest.raises(InputError, match="curve has no epoch 4"):
        build_moments(both, {1: halfway}, LABELS, samplers.ring, scene.query, seed=0)


def test_without_classes_nothing_is_said_of_them(run, samplers):
    none = torch.full_like(LABELS, UNLABELLED)
    scene = build_scene(run, none, vars(samplers), seed=0)
    assert set(scene.same_class_percent.values()) == {None}
    curve = {1: {"inner_share": samplers.ring.inner, "outer_share": samplers.ring.outer}}
    first = replace(run, snapshots=[replace(run.snapshots[0], epoch=1)])
    for drawing in (svg(scene), annealing_svg(build_moments(first, curve, none, samplers.ring, scene.query, seed=0))):
        assert "class" not in re.sub(r' class="\w"', "", drawing)


def test_a_run_without_such_a_picture_is_refused(run, samplers, tmp_path):
    queries = -run.snapshots[0].queries
    far = replace(run, snapshots=[replace(run.snapshots[0], queries=queries)])
    with pytest.raises(InputError, match="none of 6 queries has its own row within the inner ball; train longer"):
        build_scene(far, LABELS, vars(samplers), seed=0)
    narrow = vars(samplers) | {"ring": Ring(inner=0.001, outer=0.1)}
    with pytest.raises(InputError, match=r"no picture: .*hold none of the memory's 299 other rows"):
        build_scene(run, LABELS, narrow, seed=0)
    stated_params(tmp_path / "params.yaml")
    with pytest.raises(InputError, match=r"snapshots/50\.safetensors is missing"):
        main(["--root", str(tmp_path), "--svg", str(tmp_path / "a.svg")])
    assert not (tmp_path / "a.svg").exists()


@pytest.mark.parametrize("locked", ["this run", "another run", "no run", "no lock"])
def test_the_command_draws_the_snapshots_that_dvc_lock_names_and_no_others(run, tmp_path, monkeypatch, locked):
    stated_params(tmp_path / "params.yaml")
    pixels = torch.zeros(IMAGES, 3, 4, 4, dtype=torch.uint8)
    images = ImageSet(Resident(pixels), LABELS, torch.arange(IMAGES), ("a", "b", "c", "d"))
    save_images(tmp_path / "data/main/images/train.safetensors", images)
    (tmp_path / "data/main/snapshots").mkdir()
    (tmp_path / "data/main/snapshots/50.safetensors").write_bytes(b"snapshots")
    monkeypatch.setattr("annulus_lab.compare.picture.load_run", lambda path, temperature: run)
    content = b"snapshots" if locked == "this run" else b"others"
    listing = json.dumps([{"md5": hashlib.md5(content).hexdigest(), "relpath": "50.safetensors"}])
    outs = [{"path": "data/main/snapshots", "md5": f"{hashlib.md5(listing.encode()).hexdigest()}.dir"}]
    stages = {} if locked == "no run" else {"pretrain": {"outs": outs}}
    if locked != "no lock":
        (tmp_path / "dvc.lock").write_text(json.dumps({"stages": stages}))
    path = tmp_path / "annulus.svg"
    if locked == "this run":
        main(["--root", str(tmp_path), "--svg", str(path)])
        assert path.read_text().startswith("<svg")
        curve = "seed,epoch,bound_nats,ceiling_nats,inner_share,outer_share\n50,1,1,2,0.005,0.55\n51,1,1,2,0,1\n"
        (tmp_path / "metrics/main").mkdir(parents=True)
        (tmp_path / "metrics/main/pretrain_history.csv").write_text(curve)
        main(["--root", str(tmp_path), "--svg", str(path), "--annealing"])
        assert "closest 55 % without 0.5 %" in path.read_text()
    else:
        with pytest.raises(InputError, match=r"data/main/snapshots differs from dvc\.lock; `dvc checkout` brings"):
            main(["--root", str(tmp_path), "--svg", str(path)])
        assert not path.exists()
