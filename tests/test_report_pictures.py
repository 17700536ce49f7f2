"""The picture grids: pixels, names, and errors for missing or damaged files."""

import pytest
import report_root
import torch
from PIL import Image

from annulus.files.images import UNLABELLED, save_images
from annulus.files.packed import read_packed, write_packed
from annulus_lab.report.figures.pictures import LARGEST, NoPictures, image_uri, pictures
from annulus_lab.report.page.sections import Empty, grids


def shows(tile, images, row):
    image = Image.fromarray(images.pixels[row].permute(1, 2, 0).numpy())
    return tile.source == image_uri(image, LARGEST)


def test_each_query_stands_with_its_own_neighbours_in_their_order(tmp_path):
    train, test = report_root.pictures(tmp_path)
    first, second = pictures(tmp_path).neighbours
    assert shows(first.query, test.images, 0)
    assert shows(second.query, test.images, 3)
    for tile, row in zip(first.tiles, (3, 1, 2), strict=True):
        assert shows(tile, train.images, row)
    assert [tile.similarity for tile in first.tiles] == pytest.approx([0.9, 0.5, 0.25])
    # Classes in turn: disc, ring, star. `same` marks images of the query's class.
    assert (first.query.name, first.query.same) == ("disc", None)
    assert [(tile.name, tile.same) for tile in first.tiles] == [("disc", True), ("ring", False), ("star", False)]


def test_negatives_are_by_sampler_and_what_a_set_has_not_is_left_out(tmp_path):
    train, _ = report_root.pictures(tmp_path)
    (strips,) = pictures(tmp_path).negatives
    assert [strip.label for strip in strips] == ["uniform", "ball", "cave"]  # no ring in these picks
    assert [len(strip.tiles) for strip in strips] == [3, 3, 2]  # the cave's third is -1
    assert shows(strips[1].tiles[0], train.images, 8)
    assert shows(strips[1].query, train.images, 2)


def test_an_image_without_a_class_has_no_name_and_is_neither_like_its_query_nor_unlike(tmp_path):
    train, _ = report_root.pictures(tmp_path)
    train.labels[3] = UNLABELLED
    save_images(tmp_path / "data/main/images/train.safetensors", train)
    first, _ = pictures(tmp_path).neighbours
    assert [(tile.name, tile.same) for tile in first.tiles[:2]] == [("", None), ("ring", False)]


@pytest.mark.parametrize("file", ["examples.safetensors", "images/train.safetensors", "images/test.safetensors"])
def test_a_broken_file_is_named_and_a_missing_one_with_the_command_that_makes_it(tmp_path, file):
    report_root.pictures(tmp_path)
    (tmp_path / "data/main" / file).write_bytes(b"not tensors")
    with pytest.raises(NoPictures, match=f"data/main/{file} cannot be read") as none:
        pictures(tmp_path)
    assert none.value.command is None
    assert grids(tmp_path) == Empty(none.value.reason, broken=True)
    (tmp_path / "data/main" / file).unlink()
    with pytest.raises(NoPictures, match=f"data/main/{file} is not here") as none:
        pictures(tmp_path)
    assert none.value.command == "make repro"
    assert grids(tmp_path) == Empty(none.value.reason, "make repro")


@pytest.mark.parametrize(
    ("tensors", "sentence"),
    [
        ({"train_queries": torch.tensor([12])}, r"names image 12 of images/train\.safetensors, which has 12"),
        ({"test_queries": None}, "has no test_queries"),
        ({"test_queries": torch.tensor([0])}, "has 1 of test_queries, 2 x 3 of test_neighbours; run `dvc repro diag"),
        ({"test_similarity": torch.ones(1, 3)}, "has 2 of test_queries, 1 x 3 of test_similarity; run `dvc repro diag"),
        ({"test_similarity": torch.ones(2, 2)}, "has 2 of test_queries, 2 x 2 of test_similarity; run `dvc repro diag"),
    ],
)
def test_examples_of_other_images_or_without_queries_are_named(tmp_path, tensors, sentence):
    report_root.pictures(tmp_path)
    path = tmp_path / "data/main/examples.safetensors"
    arrays, about = read_packed(path)
    write_packed(path, {name: t for name, t in (arrays | tensors).items() if t is not None}, about)
    with pytest.raises(NoPictures, match=sentence):
        pictures(tmp_path)
