"""The first screen of own images: their number, pictures, map and curve, and sentences on them."""

import re
from datetime import UTC, datetime

import pytest
import report_root
import yaml
from PIL import Image
from report_root import Parsed

from annulus.files.images import UNLABELLED, load_images, save_images
from annulus.files.results import write_metrics, write_seeds, write_table
from annulus_lab.report.page.content import gather
from annulus_lab.report.page.html import html
from annulus_lab.report.page.markdown import markdown
from annulus_lab.report.page.sections import Empty

NOW = datetime(2026, 11, 29, tzinfo=UTC)
SHARES = {"": 49.0, "_pixels": 16.0, "_colour": 14.0}


def own(root, share: float = 49.0, half: float | str = 3.0, dataset: str = "photos"):
    """Returns the report of a checkout whose main line trained on own images without classes."""
    report_root.main_line(root)
    report_root.pictures(root)
    for split in ("train", "test"):
        path = root / f"data/main/images/{split}.safetensors"
        images = load_images(path)
        labels = images.labels * 0 + UNLABELLED
        save_images(path, type(images)(images.images, labels, images.rows, ()))
    lock = {"stages": {"summary": {"params": {"params.yaml": {"dataset": dataset}}}}}
    (root / "dvc.lock").write_text(yaml.safe_dump(lock))
    write_metrics(root / "metrics/main/prepare.json", {"train_images": 1271, "classes": 0})
    crops = {"crop_retrieval_images": 30, "crop_retrieval_chance_percent": 0.37}
    write_seeds(root / "metrics/main/knn.json", {0: crops, 1: crops})
    numbers = {f"crop_retrieval{name}_percent": value for name, value in (SHARES | {"": share}).items()}
    rows = [{"number": name, "mean": value, "interval": half, "seed0": value} for name, value in numbers.items()]
    write_table(root / "metrics/summary.csv", rows)
    Image.new("RGB", (40, 40), "red").save(root / "metrics/main/neighbours.png")
    (root / "metrics/main/map.svg").write_text('<svg viewBox="0 0 30 20"></svg>')
    return gather(root, NOW)


def test_the_page_begins_with_the_images_their_neighbours_map_and_curve_then_says_what_they_show(tmp_path):
    report = own(tmp_path)
    page, text = html(report), markdown(report)
    sections = re.findall(r'<section id="(\w+)"', page)
    assert sections[:2] == ["own", "gain"]
    heading = "1,271 own images: the nearest neighbour of 49.0 ± 3.0 % of crops is another crop of the same image"
    assert report.own.sentence == heading
    assert text.index(f"# {heading}") < text.index("## What was measured here, beside what five papers claim")
    first = page[page.index('<section id="own"') : page.index('<section id="gain"')]
    places = [
        first.index(words) for words in ("<h1>", "Training images", "Nearest neighbours", "A map of", "Bound and")
    ]
    assert places == sorted(places)
    assert first.index("<ul>") > places[-1]
    tags = Parsed(page).tags
    assert [name for name, _ in tags].count("h1") == 1
    assert [name for name, _ in tags].count("iframe") == 1, "the map stands once"
    assert not isinstance(report.own.sheet, Empty)
    for sentence in (
        "Crops of 30 test images, which the encoder has not seen, find their own image: by the encoder 49.0 ± 3.0 %, "
        "by pixels 16.0 ± 3.0 %, by mean colour 14.0 ± 3.0 %, by chance 0.4 %.",
        "The encoder is above pixels and mean colour: it has learned something about these images.",
        "± is half of the 95 % interval over seeds, of accuracies also over test images.",
    ):
        assert sentence in report.own.sentences
        assert sentence.partition(" ± ")[0] in page.replace("\N{NO-BREAK SPACE}", " ")


@pytest.mark.parametrize("share", [15.0, 35.0, 99.0])
def test_one_seed_gets_no_verdict(tmp_path, share):
    sentences = own(tmp_path, share, "").own.sentences
    assert sentences[1] == "Of one seed this is no verdict on whether the encoder is above pixels and mean colour."
    assert sentences[2].startswith("One seed has no interval.")


def test_an_encoder_that_is_not_clearly_above_pixels_has_learned_little(tmp_path):
    sentences = own(tmp_path, 17.0, 3.0).own.sentences
    assert sentences[1].startswith("The encoder is not clearly above pixels and mean colour: it has learned little.")
    assert sentences[2].startswith("± is half of the 95 % interval")


def test_another_data_set_and_no_run_have_no_such_screen(tmp_path):
    report = own(tmp_path, dataset="shapes")
    assert report.own is None
    assert re.findall(r'<section id="(\w+)"', html(report))[0] == "gain"
    (tmp_path / "dvc.lock").unlink()
    assert gather(tmp_path, NOW).own is None


def test_a_picture_that_is_missing_is_named_with_the_command_that_makes_it(tmp_path):
    own(tmp_path)
    (tmp_path / "metrics/main/neighbours.png").unlink()
    (tmp_path / "data/main/images/train.safetensors").unlink()
    report = gather(tmp_path, NOW)
    assert report.own.neighbours.reason == "metrics/main/neighbours.png is not there"
    assert report.own.sheet.command == report.own.neighbours.command == "make repro"
    assert str(tmp_path) not in html(report)


def test_images_with_classes_begin_with_the_linear_probe(tmp_path):
    own(tmp_path)
    write_metrics(tmp_path / "metrics/main/prepare.json", {"train_images": 90, "classes": 3})
    row = {"number": "linear_top1_percent", "mean": 71.25, "interval": 2.5, "seed0": 71.25}
    write_table(tmp_path / "metrics/summary.csv", [row])
    assert gather(tmp_path, NOW).own.sentence == (
        "90 own images of 3 classes: a linear probe is right on 71.2 ± 2.5 % of test images"
    )
