"""`annulus look`: counts, duplicates and the sheet for known files; a wrong path gives one sentence."""

import os
import shlex
import shutil
import subprocess
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import warm
import yaml
from by_path import ROOT
from dvc.utils.hydra import to_hydra_overrides
from PIL import Image
from stated import MISSING, TREE, replaced, stated_params

from annulus import look
from annulus.datasets.listing import ImageListing
from annulus.datasets.photos import find
from annulus.datasets.prepare import prepare_images
from annulus.datasets.source import Source
from annulus.errors import InputError
from annulus.files.images import UNLABELLED
from annulus.look import ImageFacts, difference_hash, exact_groups, look_at, near_pairs, report, views_sheet
from annulus.views.sets import view_set
from annulus_lab import look as laboratory
from annulus_lab.config.file import load_params
from annulus_lab.look import main

HEADINGS = 4 + 13 + 4  # pixels above the first row


def photograph(place: Path, seed: int, side: int = 64) -> Path:
    """Writes a smooth picture, different for each seed, and returns its path."""
    noise = torch.rand(1, 3, 6, 6, generator=torch.Generator().manual_seed(seed))
    pixels = torch.nn.functional.interpolate(noise, (side, side), mode="bicubic").clamp(0, 1)[0]
    place.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray((pixels * 255).byte().permute(1, 2, 0).numpy()).save(place)
    return place


@pytest.fixture
def own(tmp_path) -> Path:
    for number in range(8):
        photograph(tmp_path / "own" / ("cat" if number < 5 else "dog") / f"{number}.png", number, side=60 + number)
    shutil.copy(tmp_path / "own/cat/0.png", tmp_path / "own/dog/copy.png")
    with Image.open(tmp_path / "own/cat/1.png") as image:
        image.resize((50, 50)).save(tmp_path / "own/cat/small.jpg", quality=70)
        image.convert("L").save(tmp_path / "own/dog/grey.png")
    (tmp_path / "own/cat/cut.jpg").write_bytes(b"\xff\xd8\xff")
    (tmp_path / "own/notes.txt").write_text("hello", encoding="utf-8")
    return tmp_path / "own"


def test_the_table_says_what_is_there(own, tmp_path, capsys):
    main([str(own), "--sheet", str(tmp_path / "look.png"), "--params", str(tmp_path / "none.yaml")])
    lines = dict(
        line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines() if line[:2] not in ("no", "eq")
    )
    assert lines["images"] == "11 (class folders)"
    assert lines["unreadable"].startswith("1 file: cat/cut.jpg (")
    assert lines["width"] == "50 to 67 px, median 62"
    assert lines["modes"] == "RGB 10, L 1"
    assert lines["formats"] == "PNG 10, JPEG 1"
    assert lines["classes"] == "2: cat 6, dog 5", "as many as there are images"
    assert "cat/1.png ~ cat/small.jpg" in lines["look"]
    assert "cat/1.png ~ dog/grey.png" in lines["look"]


def test_each_line_is_of_its_own_number_and_says_so_where_there_is_nothing():
    sizes, names = ((30, 20), (1000, 1250), (40, 50)), ("a.png", "b.png", "c.png", "d.png")
    facts = [ImageFacts(size, "RGB", "PNG", str(number), 0) for number, size in enumerate(sizes)]
    listing = ImageListing("list", Path(), names, ("cat", None, "cat", "dog"), ("train", None, "test", "test"))
    lines = dict(report(Path(), listing, [*facts, ImageFacts(bad="cut off")]))
    assert lines["images"] == "3 (list)"
    assert lines["unreadable"] == "1 file: d.png (cut off)"
    assert lines["width"] == "30 to 1,000 px, median 40"
    assert lines["height"] == "20 to 1,250 px, median 50"
    assert lines["shorter side"] == "20 to 1,000 px, median 40"
    assert lines["classes"] == "1: cat 2; 1 without"
    assert lines["splits"] == "train 1, none 1, test 1"
    lines = dict(report(Path(), ImageListing("list", Path(), names[:3], (None,) * 3, ("train",) * 3), facts))
    assert lines["unreadable"] == lines["equal files"] == lines["look alike"] == "none"
    assert lines["classes"] == "none, so an encoder trains and no accuracy is measured"
    assert lines["splits"] == "none: drawn by share and seed"
    assert list(dict(report(Path(), ImageListing("list", Path(), (), (), ()), []))) == [
        *("images", "unreadable", "classes", "splits", "equal files", "look alike")
    ]


def test_copies_to_spare_and_pairs_are_counted_and_a_limit_of_what_was_compared_is_told(monkeypatch):
    names = ("a.png", "b.png", "c.png", "d.png", "e.png")
    facts = [ImageFacts((9, 9), "L", "PNG", exact, near) for exact, near in zip("xxxyz", (7, 7, 7, 6, 15), strict=True)]
    listing = ImageListing("list", Path(), names, (None,) * 5, (None,) * 5)
    lines = dict(report(Path(), listing, facts))
    assert lines["equal files"] == "2 to spare: a.png = b.png = c.png"
    assert lines["look alike"].startswith("7 pairs: a.png ~ d.png, a.png ~ e.png, b.png ~ d.png")
    assert "of the first" not in lines["look alike"]
    monkeypatch.setattr(look, "MOST_COMPARED", 4)
    assert dict(report(Path(), listing, facts))["look alike"].startswith("3 pairs: a.png ~ d.png")
    assert dict(report(Path(), listing, facts))["look alike"].endswith(" (of the first 4 images)")


def test_a_hash_has_a_one_where_the_right_one_of_two_neighbours_is_brighter():
    brighter = Image.linear_gradient("L").rotate(90)
    ends = (brighter.getpixel((0, 9)), brighter.getpixel((255, 9)))
    assert ends == (0, 255)
    assert difference_hash(brighter) == 2**64 - 1
    assert difference_hash(brighter.rotate(180)) == 0
    left = Image.new("L", (90, 80))
    left.paste(255, (10, 0, 90, 10))
    assert difference_hash(left) == 1 << 63, "the first row, and its first pair"


def test_too_little_memory_is_no_fault_of_the_file(tmp_path, monkeypatch):
    def full(path):
        raise MemoryError

    monkeypatch.setattr(look, "raw_about", full)
    with pytest.raises(MemoryError):
        look_at(photograph(tmp_path / "1.png", 0))


def test_equal_files_and_files_that_are_no_images_are_named(own, tmp_path, capsys):
    main([str(own), "--sheet", str(tmp_path / "look.png"), "--params", str(tmp_path / "none.yaml")])
    printed = capsys.readouterr().out
    assert "equal files   1 to spare: cat/0.png = dog/copy.png\n" in printed
    assert "no images     1 file: notes.txt\n" in printed
    (own / "two\nlines.txt").touch()
    main([str(own), "--sheet", str(tmp_path / "look.png"), "--params", str(tmp_path / "none.yaml")])
    assert r"no images     2 files: notes.txt, 'two\nlines.txt'" in capsys.readouterr().out


@pytest.mark.parametrize("name", [pytest.param("my own", marks=pytest.mark.slow), "Mia's (1=ü)"])
@pytest.mark.parametrize(
    ("words", "more"),
    [
        pytest.param([], {}, marks=pytest.mark.slow),
        (["--classes", "none", "--views", "strong"], {"datasets.photos.classes": "none", "views": "strong"}),
    ],
)
def test_in_a_checkout_the_line_that_trains_on_them_comes_last(name, words, more, own, tmp_path, capsys):
    own = own.rename(tmp_path / name)
    params = stated_params(tmp_path / "params.yaml")
    main([str(own), "--sheet", str(tmp_path / "look.png"), "--params", str(params), *words])
    line = shlex.split(capsys.readouterr().out.splitlines()[-1])
    assert line[:4] == ["next", "dvc", "exp", "run"]
    assert set(line[4::2]) == {"-S"}
    changes = {change.key_or_group: change.value() for change in to_hydra_overrides(line[5::2])}
    epochs = {"scales.demo.pretrain.epochs": 896}  # an epoch of these few images is one step
    assert changes == {"dataset": "photos", "datasets.photos.root": str(own)} | more | epochs


def test_near_pairs_are_those_of_the_plain_count_of_bits():
    random = torch.Generator().manual_seed(0)
    hashes = torch.randint(1, 2**62, (30,), generator=random).tolist()
    hashes += [hashes[0] ^ 0b1111, hashes[1] ^ 0b11111, hashes[2]]
    facts = [ImageFacts(exact=str(place), near=value) for place, value in enumerate(hashes)]
    expected = [
        (one, other)
        for one in range(len(hashes))
        for other in range(one + 1, len(hashes))
        if (hashes[one] ^ hashes[other]).bit_count() <= look.NEAR
    ]
    assert near_pairs(facts) == (2, expected) == (2, [(0, 30), (2, 32)])
    assert exact_groups([ImageFacts(exact=name) for name in "abcab"]) == [[0, 3], [1, 4]]


def test_all_pairs_are_counted_and_the_named_ones_alone_are_kept():
    facts = [ImageFacts((9, 9), "L", "PNG", str(number), 7) for number in range(1000)]
    tracemalloc.start()
    assert near_pairs(facts) == (499_500, [(0, other) for other in range(1, 11)])
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()
    names = tuple(f"{number}.png" for number in range(1000))
    lines = dict(report(Path(), ImageListing("list", Path(), names, (None,) * 1000, (None,) * 1000), facts))
    assert lines["look alike"].startswith("499,500 pairs: 0.png ~ 1.png, 0.png ~ 2.png, ")
    assert lines["look alike"].endswith("0.png ~ 10.png and 499490 more")
    same = [ImageFacts((9, 9), "L", "PNG", "x", 7)] * 1000
    lines = dict(report(Path(), ImageListing("list", Path(), names, (None,) * 1000, (None,) * 1000), same))
    assert lines["equal files"].endswith(
        "0.png = 1.png = 2.png = 3.png = 4.png = 5.png = 6.png = 7.png = 8.png = 9.png and 990 more"
    )


def test_pictures_of_one_colour_are_not_alike(tmp_path):
    for number, colour in enumerate(("red", "blue")):
        Image.new("RGB", (20, 20), colour).save(tmp_path / f"{number}.png")
    facts = [look_at(tmp_path / f"{number}.png") for number in range(2)]
    assert near_pairs(facts) == (0, [])
    assert difference_hash(Image.new("L", (9, 9))) == 0


def test_the_sheet_has_six_rows_of_the_chosen_views(own, tmp_path, capsys):
    params = stated_params(tmp_path / "params.yaml")
    for views in ("gentle", "strong"):
        words = [] if views == "gentle" else ["--views", views]
        main([str(own), "--sheet", str(tmp_path / f"{views}.png"), "--params", str(params), *words])
        assert f"6 images at 32 px, 12 views of each (views: {views})" in capsys.readouterr().out
    gentle, strong = (Image.open(tmp_path / f"{views}.png") for views in ("gentle", "strong"))
    assert gentle.size == strong.size
    assert gentle.size[1] == HEADINGS + 6 * (look.TILE + 4)
    assert gentle.tobytes() != strong.tobytes()
    listing = find(own, tmp_path / "unpacked")
    files = [listing.root / name for name in listing.names if "cut" not in name]
    same = views_sheet(files[:2], "none", "none", 32, 32)
    lefts = [same.width - number * (look.TILE + 4) for number in range(look.VIEWS, 0, -1)]
    row = [same.getpixel((left, 60)) for left in (lefts[0] - 6, *(left + 9 for left in lefts))]
    assert len(set(row)) == 2, "without augmentation all views are equal"
    assert row[0] == (255, 255, 255), "a gap stands before them"


def test_the_sheet_names_its_files_and_columns(own, monkeypatch):
    drawn = []
    original = look.sheet
    monkeypatch.setattr(
        look, "sheet", lambda rows, headings: drawn.append((rows, headings)) or original(rows, headings=headings)
    )
    long = photograph(own / "a_very_long_name_of_a_photograph_0001.png", 1)
    views_sheet([long, own / "cat/0.png"], "none", "gentle", 40, 32)
    [(rows, headings)] = drawn
    assert [name for name, _ in rows] == ["a_very_long_name...001.png", "0.png"]
    assert headings == {0: "40 px", 2: "views as training draws them: gentle, 32 px"}


def test_what_a_training_would_refuse_is_told(own, tmp_path, capsys):
    photograph(own / "owl/1.png", 9)
    with pytest.raises(SystemExit, match="1"):
        main([str(own), "--sheet", str(tmp_path / "look.png"), "--params", str(stated_params(tmp_path / "some.yaml"))])
    printed = capsys.readouterr().out
    assert "refused       dataset=photos would say: there is only one image of owl" in printed
    assert "next " not in printed, "what would be refused is not recommended"
    assert (tmp_path / "look.png").exists()


def test_of_one_image_without_classes_another_one_is_asked_for(tmp_path, capsys):
    photograph(tmp_path / "own/1.png", 9)
    with pytest.raises(SystemExit, match="1"):
        main([str(tmp_path / "own"), "--sheet", str(tmp_path / "look.png"), "--params", str(tmp_path / "none.yaml")])
    assert "would say: only one image can be read; give two or more, to train and to test\n" in capsys.readouterr().out


def test_an_odd_name_is_quoted_and_leaves_its_twin_as_it_is(tmp_path, capsys):
    first = photograph(tmp_path / "own/Ümläut.png", 9)
    shutil.copy(first, tmp_path / "own/new\nline.png")
    main([str(tmp_path / "own"), "--sheet", str(tmp_path / "look.png"), "--params", str(tmp_path / "none.yaml")])
    equal = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("equal files"))
    assert set(equal.removeprefix("equal files   1 to spare: ").split(" = ")) == {"Ümläut.png", r"'new\nline.png'"}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["gone"], "^gone does not exist; give a folder of images, class folders"),
        (["~no such user/gone"], "^~no such user/gone does not exist; give a folder"),
        (["n" * 300], "^n{80} cannot be opened: File name too long; give a folder"),
        (["own", "--views", "gentel"], "^views: 'gentel' is none of gentle, .*; did you mean 'gentle'"),
        (["own", "--sheet", "look.jpg"], "^--sheet look.jpg does not end in .png; name a PNG file"),
        (["own", "--sheet", "no/such/look.png"], "^--sheet no/such/look.png: there is no folder no/such; make it, or"),
        (
            ["own", "--sheet", "own/cat/look.png"],
            "^--sheet own/cat/look.png would be one of the images; name a file in",
        ),
        (["broken"], "^no image of broken can be read; see the table"),
    ],
)
def test_a_mistake_is_one_sentence(own, words, sentence, monkeypatch):
    monkeypatch.chdir(own.parent)
    Path("broken").mkdir()
    Path("broken/1.jpg").touch()
    with pytest.raises(InputError, match=sentence):
        main(words)


def test_what_is_left_out_is_told_as_a_warning(own, tmp_path):
    (own / "test").mkdir()
    words = [str(own), "--sheet", str(tmp_path / "look.png"), "--params", str(tmp_path / "none.yaml")]
    done = subprocess.run(
        [warm.folder() / "python", "-m", "annulus", "look", *words],
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert f"WARNING: {own}: folders of a split without an image: test\n" in done.stderr


def test_views_and_sizes_are_those_of_params_yaml_and_else_of_the_package(tmp_path):
    assert laboratory.chosen(None, None) == (view_set("gentle"), "gentle", 32, 32)
    assert laboratory.chosen("strong", None) == (view_set("strong"), "strong", 32, 32)
    values = {"views": "standard", "datasets.photos.image_size": 48, "datasets.photos.view_size": 40}
    tree = replaced(TREE, values | {"view_sets.standard.flip": 0.25, "view_sets.crop": MISSING})
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(tree))
    own = replace(view_set("standard"), flip=0.25)
    params = load_params(tmp_path / "params.yaml")
    assert laboratory.chosen(None, params) == (own, "standard", 48, 40)
    assert laboratory.chosen("crop", params) == (view_set("crop"), "crop", 48, 40)


def looked_parts(counts) -> look.LookedParts:
    sources = {
        part: Source((), torch.full((count,), UNLABELLED), read=lambda rows: (rows, {}))
        for part, count in counts.items()
    }
    return look.LookedParts(sources, {part: torch.ones(count, dtype=torch.bool) for part, count in counts.items()})


@pytest.mark.parametrize("classes", ["top", "none"])
@pytest.mark.parametrize("limit", [None, 40])
def test_the_number_of_training_images_is_that_of_the_run(classes, limit, tmp_path, monkeypatch):
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    for number in range(83):
        photograph(tmp_path / "own" / ("cat" if number % 3 else "dog") / f"{number}.png", number, side=12)
    for number in (0, 1, 40, 41, 61):
        next((tmp_path / "own").glob(f"*/{number}.png")).write_bytes(b"cut")
    values = {"seeds": [3], "datasets.photos.root": str(tmp_path / "own"), "datasets.photos.test_fraction": 0.25}
    values |= {"datasets.photos.classes": classes, "scales.demo.prepare.train_images": limit, "dataset": "photos"}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(replaced(TREE, values)))
    params = load_params(tmp_path / "params.yaml")
    view = laboratory.chosen(None, params)
    parts = look.look(tmp_path / "own", classes, tmp_path / "look.png", *view, 0.25, 3)
    settings, scale = params.datasets.photos, params.get("scales.demo.prepare")
    assert laboratory.training_images(parts, params) == len(prepare_images("photos", settings, scale, 3).train)


def test_all_images_count_where_the_scale_takes_all(tmp_path):
    parts = looked_parts({"train": 5000})
    budget = {"scales.demo.prepare.train_images": None, "scales.demo.pretrain.epochs": 1}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(replaced(TREE, budget)))
    assert (
        "1 epochs of 5,000 training images"
        in laboratory.more_epochs(parts, load_params(tmp_path / "params.yaml")).reason
    )


@pytest.mark.parametrize(
    ("counts", "epochs"),
    [
        ({"train": 115, "test": 13}, 299),  # 3 batches of 32
        ({"train": 103, "validation": 12, "test": 13}, 299),
        ({"train": 3584, "test": 400}, None),  # 112 batches; 8 epochs are enough
        ({"train": 3583, "test": 400}, 9),
        ({"train": 100_000, "test": 400}, None),  # scale demo takes 4,000
    ],
)
def test_few_images_get_as_many_steps_as_the_main_line_has(counts, epochs, tmp_path):
    parts = looked_parts(counts)
    more = laboratory.more_epochs(parts, load_params(stated_params(tmp_path / "params.yaml")))
    assert (more and more.change) == (epochs and f"scales.demo.pretrain.epochs={epochs}")


def test_validation_images_make_no_steps(tmp_path):
    source = Source(("a",), torch.zeros(115, dtype=torch.int64), read=lambda rows: (rows, {}))
    parts = look.LookedParts({"train": source}, {"train": torch.ones(115, dtype=torch.bool)})
    more = laboratory.more_epochs(parts, load_params(stated_params(tmp_path / "params.yaml")))
    assert more.reason == (
        "8 epochs of 103 training images are 24 steps, too few to learn much; 299 epochs are 897 steps, as in the main "
        "line"
    )
