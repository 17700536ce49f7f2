"""Readers of COCO, VOC and LVIS: what they read, and each sentence that refuses a file."""

import json
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from annulus.detection.annotated import LIMBS, PERSON, Detection, mask_of, rle_of
from annulus.detection.average_precision import evaluate
from annulus.detection.coco import read_coco
from annulus.detection.lvis import read_lvis
from annulus.detection.splits import read_splits
from annulus.detection.voc import read_voc
from annulus.errors import InputError

COCO128 = Path(__file__).resolve().parents[2] / "shared" / "data" / "coco128.tar"


@pytest.mark.skipif(not COCO128.is_file(), reason="no ../shared/data/coco128.tar beside the project")
def test_coco128_is_read_whole_and_its_truth_as_detections_has_100_percent(tmp_path):
    with tarfile.open(COCO128) as archive:
        archive.extractall(tmp_path, filter="data")
    truth = read_coco(tmp_path / "annotations/instances_train2017.json", tmp_path / "train2017", "masks", False)
    objects = [(picture, one) for picture in truth.pictures for one in picture.instances]
    assert (len(truth.pictures), len(objects), len(truth.categories)) == (128, 939, 80)
    crowds = [one for _, one in objects if one.crowd]
    assert crowds
    assert all(isinstance(one.segmentation, dict) for one in crowds)
    ratios = [mask_of(one, p.height, p.width).sum() / one.area for p, one in objects if one.area > 200]
    assert np.median(ratios) == pytest.approx(1, abs=0.02)  # areas of the file: some polygons overlap
    detections = [
        Detection(p.id, one.category, one.box, 1.0, rle_of(mask_of(one, p.height, p.width)), None)
        for p, one in objects
        if not one.crowd
    ]
    numbers = evaluate(truth, detections)
    assert numbers["box_ap_percent"] == numbers["mask_ap_percent"] == 100


# One annotated picture of each format, to be spoiled one way at a time.


def image(folder: Path, name: str, size: tuple[int, int] = (40, 30)) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size).save(folder / name)


def records() -> dict:
    square = [2, 3, 12, 3, 12, 13, 2, 13]
    annotation = {"id": 7, "image_id": 5, "category_id": 3, "bbox": [2, 3, 10, 10], "area": 90, "iscrowd": 0}
    return {
        "images": [{"id": 5, "file_name": "a.png", "width": 40, "height": 30}],
        "annotations": [annotation | {"segmentation": [square]}],
        "categories": [{"id": 3, "name": "cat"}],
    }


def person() -> dict:
    content = records()
    limbs = [[first + 1, second + 1] for first, second in LIMBS]
    content["categories"][0] |= {"keypoints": list(PERSON), "skeleton": limbs}
    content["annotations"][0] |= {"keypoints": [4, 5, 2] * 17, "num_keypoints": 17}
    return content


def coco(root: Path, content: object, kind: str = "masks", drop_empty: bool = False):
    image(root / "images", "a.png")
    path = root / "some.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return read_coco(path, root / "images", kind, drop_empty)


def test_coco_has_boxes_masks_areas_and_the_files_of_its_images(tmp_path):
    (picture,) = coco(tmp_path, records()).pictures
    assert (picture.id, picture.file, picture.width, picture.height) == (5, tmp_path / "images/a.png", 40, 30)
    (one,) = picture.instances
    assert (one.box, one.category, one.area, one.crowd) == ((2.0, 3.0, 10.0, 10.0), 3, 90.0, False)
    assert mask_of(one, 30, 40).sum() == 100
    assert coco(tmp_path, records(), "boxes").pictures[0].instances[0].segmentation is None


def test_keypoints_come_with_limbs_counted_from_0_and_pairs_that_a_mirror_swaps(tmp_path):
    split = coco(tmp_path, person(), "keypoints")
    assert (split.skeleton, split.keypoint_names) == (LIMBS, PERSON)
    assert (1, 2) in split.flip_pairs
    assert split.pictures[0].instances[0].keypoints == (4.0, 5.0, 2.0) * 17


def spoiled(part: str, **changes: object) -> dict:
    content = records()
    content[part][0] |= changes
    return content


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ('{"images": [', "some.json cannot be read as JSON .*; fetch it again"),
        ({"images": [], "categories": []}, "has no list of annotations; a COCO or LVIS file has images, annotations"),
        (spoiled("images", file_name="b.png"), r"1 image \(.*b.png\) of 1 not on the disk; unpack the images there"),
        (spoiled("images", width=41), r"1 image \(.*a.png: 40 x 30 pixels where 41 x 30 are annotated\)"),
        (spoiled("annotations", image_id=6), r"1 annotation \(7\) whose image_id is not in images"),
        (spoiled("annotations", category_id=1), r"1 annotation \(7\) whose category_id is not in categories"),
        (spoiled("annotations", bbox=[2, 3, 0, 9]), r"1 annotation \(7\) without area.*drop_empty: true"),
        (spoiled("annotations", segmentation=[[1, 1, 2, 2]]), r"1 annotation \(7\) without area"),
        (spoiled("annotations", bbox=[1, 2, 3]), r"annotation 7 has the bbox \[1, 2, 3\]; expected x, y, width"),
        (spoiled("annotations", bbox=[1, 2, 3, float("nan")]), "expected x, y, width and height in pixels"),
        (spoiled("annotations", id="7"), "an entry of annotations has the id '7'; every one needs a whole number"),
        (spoiled("images", neg_category_ids=[]), "is a file of LVIS .*; read it as kind lvis"),
    ],
)
def test_a_coco_file_that_cannot_be_trained_on_is_refused(content, sentence, tmp_path):
    with pytest.raises(InputError, match=sentence):
        coco(tmp_path, content)


@pytest.mark.parametrize("part", ["images", "annotations", "categories"])
def test_an_id_that_stands_twice_is_refused(part, tmp_path):
    content = records()
    content[part] *= 2
    with pytest.raises(InputError, match=rf"id \d stands twice in {part}; ids are unique"):
        coco(tmp_path, content)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"none.json does not exist; put the annotation file there"):
        read_coco(tmp_path / "none.json", tmp_path, "boxes", False)


def test_objects_without_area_are_left_out_where_that_is_asked_for_and_counted(tmp_path, caplog):
    content = records()
    content["annotations"] += [content["annotations"][0] | {"id": number, "bbox": [1, 1, 5, 0]} for number in (8, 9)]
    (picture,) = coco(tmp_path, content, drop_empty=True).pictures
    assert len(picture.instances) == 1
    assert "2 annotations (8, 9) without area left out" in caplog.text


def test_keypoints_that_are_not_of_17_points_and_files_without_are_refused(tmp_path):
    content = person()
    content["annotations"][0]["keypoints"] = [1, 2, 2] * 16
    with pytest.raises(InputError, match="annotation 7 has 48 numbers as keypoints; a person has 17 x 3 = 51"):
        coco(tmp_path, content, "keypoints")
    content["annotations"] = []
    del content["categories"][0]["keypoints"]
    with pytest.raises(InputError, match="has 1 categories, of which 0 have keypoints; expected the one"):
        coco(tmp_path, content, "keypoints")


def test_an_image_on_its_side_is_as_large_as_it_is_once_turned(tmp_path):
    content = spoiled("images", width=30, height=40)
    image(tmp_path / "images", "a.png")
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (40, 30)).save(tmp_path / "images" / "a.png", exif=exif)
    path = tmp_path / "some.json"
    path.write_text(json.dumps(content))
    assert read_coco(path, tmp_path / "images", "masks", False).pictures[0].width == 30


def federated() -> dict:
    content = records()
    content["images"][0] = {
        "id": 5,
        "coco_url": "http://images.cocodataset.org/val2017/a.png",
        "width": 40,
        "height": 30,
    }
    content["images"][0] |= {"neg_category_ids": [4], "not_exhaustive_category_ids": [3]}
    content["categories"] = [{"id": 3, "name": "cat", "frequency": "r"}, {"id": 4, "name": "dog", "frequency": "f"}]
    return content


def lvis(root: Path, content: dict):
    image(root / "val2017", "a.png")
    (root / "some.json").write_text(json.dumps(content))
    return read_lvis(root / "some.json", root, False)


def test_lvis_names_files_by_their_address_and_says_what_is_known_of_an_image(tmp_path):
    split = lvis(tmp_path, federated())
    (picture,) = split.pictures
    assert (picture.file, picture.negative, picture.not_exhaustive) == (tmp_path / "val2017/a.png", (4,), (3,))
    assert [(category.id, category.frequency) for category in split.categories] == [(3, "r"), (4, "f")]


@pytest.mark.parametrize(
    ("part", "key", "value", "sentence"),
    [
        (
            "images",
            "coco_url",
            "a.png",
            "image 5 has the coco_url 'a.png'; expected an address that ends in FOLDER/FILE",
        ),
        ("categories", "frequency", "x", "category 3 has the frequency 'x'; expected one of r, c, f"),
        ("images", "neg_category_ids", None, r"no file of LVIS \(images without neg_category_ids\)"),
    ],
)
def test_an_lvis_file_that_cannot_be_trained_on_is_refused(part, key, value, sentence, tmp_path):
    content = federated()
    content[part][0] |= {key: value}
    if value is None:
        del content[part][0][key]
    with pytest.raises(InputError, match=sentence):
        lvis(tmp_path, content)


XML = """<annotation><filename>1.png</filename><size><width>40</width><height>30</height><depth>3</depth></size>
<object><name>dog</name><difficult>1</difficult><part><name>head</name><bndbox><xmin>9</xmin></bndbox></part>
<bndbox><xmin>1</xmin><ymin>11</ymin><xmax>10</xmax><ymax>30</ymax></bndbox></object></annotation>"""


def voc(root: Path, xml: str = XML, listed: str = "1\n", drop_empty: bool = False):
    image(root / "JPEGImages", "1.png")
    for path, text in (("Annotations/1.xml", xml), ("ImageSets/Main/test.txt", listed)):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return read_voc(root, "test", drop_empty)


def test_a_voc_box_from_the_first_to_the_tenth_pixel_is_ten_wide(tmp_path):
    split = voc(tmp_path)
    (one,) = split.pictures[0].instances
    assert (one.box, one.area, one.difficult) == ((0.0, 10.0, 10.0, 20.0), 200.0, True)
    assert [(category.id, category.name) for category in split.categories] == [(1, "dog")]


def test_the_categories_of_voc_are_those_of_its_lists(tmp_path):
    voc(tmp_path)
    for name in ("cat", "dog"):
        (tmp_path / f"ImageSets/Main/{name}_test.txt").write_text("1 -1\n")
    split = voc(tmp_path)
    assert [category.name for category in split.categories] == ["cat", "dog"]
    assert split.pictures[0].instances[0].category == 2
    (tmp_path / "ImageSets/Main/dog_test.txt").unlink()
    with pytest.raises(InputError, match=r"1.xml has an object of 'dog', which is no class of this set \(cat\)"):
        voc(tmp_path)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"listed": "1\n2\n"}, "2.xml is missing or no whole XML file"),
        ({"listed": "1\n1\n"}, r"test.txt lists 1 image \(1\) twice; correct it"),
        ({"listed": ""}, "test.txt lists no image"),
        ({"xml": XML[:-9]}, "1.xml is missing or no whole XML file .*; fetch it again"),
        ({"xml": XML.replace("<xmax>10</xmax>", "")}, "1.xml has no bndbox/xmax; expected an annotation file of VOC"),
        ({"xml": XML.replace(">30</ymax>", ">x</ymax>")}, "has 'x' as bndbox/ymax; expected a whole number of pixels"),
        ({"xml": XML.replace(">10</xmax>", ">0</xmax>")}, r"1 object \(1.xml\) without area"),
        ({"xml": XML.replace("<width>40", "<width>44")}, "40 x 30 pixels where 44 x 30 are annotated"),
    ],
)
def test_a_voc_folder_that_cannot_be_trained_on_is_refused(changes, sentence, tmp_path):
    with pytest.raises(InputError, match=sentence):
        voc(tmp_path, **changes)


def test_a_voc_object_without_area_is_left_out_where_that_is_asked_for(tmp_path):
    assert voc(tmp_path, XML.replace(">10</xmax>", ">0</xmax>"), drop_empty=True).pictures[0].instances == ()


def test_a_voc_folder_without_lists_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"test.txt cannot be read .*needs JPEGImages, Annotations and ImageSets/Main"):
        read_voc(tmp_path, "test", False)


def test_splits_of_different_categories_are_refused(tmp_path):
    for split, names in (("train", ["cat", "dog"]), ("val", ["cat", "cow"])):
        image(tmp_path / f"{split}2017", "a.png")
        content = records() | {"categories": [{"id": id, "name": name} for id, name in enumerate(names, 3)]}
        (tmp_path / "annotations").mkdir(exist_ok=True)
        (tmp_path / f"annotations/instances_{split}2017.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"2 categories differ .*4 'cow' in val only, 4 'dog' in train"):
        read_splits(tmp_path, "boxes", False)
    with pytest.raises(InputError, match="kind of annotations 'points' is unknown; expected one of boxes, masks"):
        read_splits(tmp_path, "points", False)
