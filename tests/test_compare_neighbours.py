"""Nearest images by two sides: their rows, their frames, and the source of a revision's files."""

import hashlib
import json
import shutil
from contextlib import ExitStack

import pytest
import torch
import yaml
from by_path import parse_yaml
from PIL import ImageColor
from report_root import first_commit
from settings import stripes
from test_compare import files, write

from annulus.diagnostics.neighbours import picture
from annulus.encoders.features import Features, save_features
from annulus.errors import InputError
from annulus.files.images import save_images
from annulus.files.sheets import FONT, GAP
from annulus_lab.compare.command import main
from annulus_lab.compare.neighbours import SAME, SideNeighbours, neighbours_picture
from annulus_lab.compare.outputs import outputs

SIDE = 96


def write_run(folder, turn: int) -> None:
    """Writes data/main of a run whose encoder has row `turn + place` next to each test image."""
    train, test = stripes(12, 0), stripes(6, 1)
    for split, images in (("train", train), ("test", test)):
        save_images(folder / "images" / f"{split}.safetensors", images)
        angle = torch.arange(len(images)) / 4 + (0.01 + turn / 4 if split == "test" else 0)
        features = torch.stack([angle.cos(), angle.sin()], dim=1)
        save_features(folder / "features/0", split, Features({"pooled": features}, images.labels, images.classes))


def put_in_cache(folder, cache) -> str:
    """Puts a folder's content into a cache of DVC and returns its name there."""

    def put(content: bytes, ending: str = "") -> str:
        name = hashlib.md5(content).hexdigest() + ending
        (cache / name[:2]).mkdir(parents=True, exist_ok=True)
        (cache / name[:2] / name[2:]).write_bytes(content)
        return name

    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    entries = [{"md5": put(path.read_bytes()), "relpath": path.relative_to(folder).as_posix()} for path in paths]
    return put(json.dumps(entries).encode(), ".dir")


@pytest.fixture
def root(tmp_path):
    """A repository whose HEAD is in DVC's cache, and whose workspace has another encoder."""
    content = files(**{"knn": {"layer": "pooled"}})
    (tmp_path / ".dvc").mkdir()
    (tmp_path / ".dvc/config").touch()
    write_run(tmp_path / "data/main", 0)
    cache = tmp_path / ".dvc/cache/files/md5"
    lock = parse_yaml(content["dvc.lock"])
    for stage, output in (("prepare", "images"), ("embed", "features")):
        digest = put_in_cache(tmp_path / "data/main" / output, cache)
        lock["stages"][stage] = {"cmd": stage, "outs": [{"path": f"data/main/{output}", "md5": digest}]}
    write(tmp_path, content | {"dvc.lock": yaml.safe_dump(lock), ".gitignore": "/data\n/.dvc/cache\n"})
    first_commit(tmp_path)
    write_run(tmp_path / "data/main", 3)
    lock["stages"]["embed"]["outs"][0]["md5"] = put_in_cache(tmp_path / "data/main/features", cache)
    write(tmp_path, {"dvc.lock": yaml.safe_dump(lock)})
    return tmp_path


def test_a_row_has_the_query_the_base_s_neighbours_and_the_head_s_those_of_its_class_in_a_frame_common_ones_pale():
    train, test = stripes(12, 0), stripes(6, 1)
    sides = [
        SideNeighbours(train, test, torch.tensor([0, 1]), torch.tensor(rows))
        for rows in ([[0, 1], [3, 4]], [[0, 2], [5, 6]])
    ]
    drawing = neighbours_picture(*sides, ("one", "two"))
    lefts = [3 * GAP + number * (SIDE + GAP) + 2 * GAP * gaps for number, gaps in enumerate((0, 1, 1, 2, 2))]
    above = 2 * GAP + FONT
    assert drawing.size == (lefts[-1] + SIDE + GAP, above + 2 * (SIDE + GAP))

    def corner(row, column):
        return drawing.getpixel((lefts[column] + 2, above + row * (SIDE + GAP) + 2))

    same = ImageColor.getrgb(SAME)
    framed = [[corner(row, column) == same for column in range(5)] for row in (0, 1)]
    assert framed == [[False, True, False, True, True], [False, True, False, True, False]]

    for column, row, kept in ((1, 0, 0.45), (2, 1, 1.0), (3, 0, 0.45), (4, 2, 1.0)):
        actual = drawing.getpixel((lefts[column] + 48, above + 48))
        own = picture(train, row, SIDE).getpixel((48, 48))
        pale = [255 - kept * (255 - value) for value in own]
        assert actual == pytest.approx(pale, abs=1), "row 0, which both have, is pale, and no other"


def test_the_command_draws_a_revision_from_dvc_s_cache_beside_the_workspace(root, capsys, monkeypatch):
    calls = []
    monkeypatch.setattr(
        "annulus_lab.compare.neighbours.neighbours_picture",
        lambda base, head, names: calls.append((base, head, names)) or neighbours_picture(base, head, names),
    )
    main(["HEAD", "--root", str(root), "--neighbours", str(root / "near.png")])
    ((base, head, names),) = calls
    assert (root / "near.png").read_bytes().startswith(b"\x89PNG")
    assert names[1] == "workspace"
    assert base.queries.tolist() == head.queries.tolist() == list(range(6))
    assert base.nearest[:, 0].tolist() == [0, 1, 2, 3, 4, 5]
    assert head.nearest[:, 0].tolist() == [3, 4, 5, 6, 7, 8]
    with pytest.raises(InputError, match=r"^--neighbours near\.svg: the name must end in \.png"):
        main(["HEAD", "--root", str(root), "--neighbours", "near.svg"])


def test_what_is_not_there_or_of_other_images_is_one_sentence(root):
    save_images(root / "data/main/images/test.safetensors", stripes(6, 2))
    with pytest.raises(InputError, match="and workspace have other images; neighbours are compared on the same ones"):
        main(["HEAD", "--root", str(root), "--neighbours", str(root / "near.png")])
    save_images(root / "data/main/images/train.safetensors", stripes(11, 0))
    with pytest.raises(InputError, match=r"^workspace has features of more images than it has; run `dvc repro` there"):
        main(["HEAD", "--root", str(root), "--neighbours", str(root / "near.png")])
    write_run(root / "data/main", 0)  # the state after a switch to another branch, without its data
    with pytest.raises(InputError, match=r"data/main/features differs from dvc.lock; `dvc repro` brings or makes"):
        main(["HEAD", "--root", str(root), "--neighbours", str(root / "near.png")])
    shutil.rmtree(root / ".dvc/cache")
    with ExitStack() as stack, pytest.raises(InputError, match=r"data/main/images is not in DVC's cache .*`dvc fetch`"):
        stack.enter_context(outputs(root, "HEAD"))
    assert not (root / "near.png").exists()
