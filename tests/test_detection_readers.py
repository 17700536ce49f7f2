"""Readers of COCO, VOC and LVIS: their results, and each sentence that refuses a file."""

import json
import os
from pathlib import Path

import pytest
from detection_cases import filled
from PIL import Image

from annulus.errors import InputError
from annulus_lab.studies.detection.annotated import LIMBS, PERSON, decode_mask, run_lengths
from annulus_lab.studies.detection.coco import read_coco
from annulus_lab.studies.detection.lvis import read_lvis
from annulus_lab.studies.detection.samples import read_image
from annulus_lab.studies.detection.splits import read_splits
from annulus_lab.studies.detection.voc import read_voc

# One annotated picture of each format; a test spoils it in one way.
OBJECT = {"id": 7, "image_id": 5, "category_id": 3, "bbox": [2, 3, 10, 10], "area": 90, "iscrowd": 0}
COCO = {
    "images": {"id": 5, "file_name": "a.png", "width": 40, "height": 30},
    "annotations": OBJECT | {"segmentation": [[2, 3, 12, 3, 12, 13, 2, 13]]},
    "categories": {"id": 3, "name": "cat"},
}
POINTS = {"keypoints": list(PERSON), "skeleton": [[first + 1, second + 1] for first, second in LIMBS]}
LVIS = {
    "images": {"coco_url": "http://a.b/val2017/a.png", "neg_category_ids": [4], "not_exhaustive_category_ids": [3]},
    "categories": {"frequency": "r"},
}
XML = """<annotation><filename>1.png</filename><size><width>40</width><height>30</height><depth>3</depth></size>
<object><name>dog</name><difficult>1</difficult><part><name>head</name><bndbox><xmin>9</xmin></bndbox></part>
<bndbox><xmin>1</xmin><ymin>11</ymin><xmax>10</xmax><ymax>30</ymax></bndbox></object></annotation>"""


def records(*changes: dict) -> dict:
    """A COCO file with one image, annotation and category, in which some entries are replaced, or removed (...)."""
    content = {}
    for part, record in COCO.items():
        for change in changes:
            record = record | change.get(part, {})
        content[part] = [{key: value for key, value in record.items() if value is not ...}]
    return content


def read(root: Path, content: object, kind: str = "masks", drop_empty: bool = False, exif: Image.Exif | None = None):
    folder = root / ("val2017" if kind == "lvis" else "images")
    folder.mkdir(exist_ok=True)
    Image.new("RGB", (40, 30)).save(folder / "a.png", exif=exif)
    path = root / "some.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return read_lvis(path, root, drop_empty) if kind == "lvis" else read_coco(path, folder, kind, drop_empty)


def voc(root: Path, xml: str = XML, image_set: str = "1\n", drop_empty: bool = False):
    for path, text in (("Annotations/1.xml", xml), ("ImageSets/Main/test.txt", image_set), ("JPEGImages/1.png", "")):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(text.encode("utf-8", "surrogateescape"))
    Image.new("RGB", (40, 30)).save(root / "JPEGImages/1.png")
    return read_voc(root, "test", drop_empty)


def test_coco_has_boxes_masks_areas_and_the_files_of_its_images(tmp_path):
    (picture,) = read(tmp_path, records()).pictures
    assert (picture.id, picture.file, picture.width, picture.height) == (5, tmp_path / "images/a.png", 40, 30)
    (one,) = picture.instances
    assert (one.box, one.category, one.area, one.crowd) == ((2.0, 3.0, 10.0, 10.0), 3, 90.0, False)
    assert decode_mask(one, 30, 40).sum() == 100
    assert read(tmp_path, records(), "boxes").pictures[0].instances[0].segmentation is None


@pytest.mark.parametrize(("kind", "area"), [("masks", 50), ("boxes", 100)])
def test_an_area_that_the_file_does_not_give_is_the_mask_s_or_without_masks_the_box_s(kind, area, tmp_path):
    half = {"area": ..., "segmentation": [[2, 3, 7, 3, 7, 13, 2, 13]]}
    assert read(tmp_path, records({"annotations": half}), kind).pictures[0].instances[0].area == area


def test_keypoints_come_with_limbs_counted_from_0_and_pairs_that_a_mirror_swaps(tmp_path):
    split = read(tmp_path, records({"categories": POINTS, "annotations": {"keypoints": [4, 5, 2] * 17}}), "keypoints")
    assert (split.skeleton, split.keypoint_names) == (LIMBS, PERSON)
    assert (1, 2) in split.flip_pairs
    assert split.pictures[0].instances[0].keypoints == (4.0, 5.0, 2.0) * 17


def test_lvis_names_files_by_their_address_and_says_what_is_known_of_an_image(tmp_path):
    content = records(LVIS)
    content["categories"].insert(0, {"id": 4, "name": "dog", "frequency": "f"})
    split = read(tmp_path, content, "lvis")
    (picture,) = split.pictures
    assert (picture.file, picture.negative, picture.not_exhaustive) == (tmp_path / "val2017/a.png", (4,), (3,))
    assert [(category.id, category.frequency) for category in split.categories] == [(3, "r"), (4, "f")]


@pytest.mark.parametrize(
    ("kind", "content", "sentence"),
    [
        ("masks", '{"images": [', "some.json cannot be read as JSON .*; fetch it again"),
        ("masks", {"images": [], "categories": []}, "has no list of annotations; a COCO or LVIS file has images, anno"),
        ("masks", {"images": {"file_name": "b.png"}}, r"1 image \(.*b.png\) of 1 not on the disk; unpack the images"),
        ("masks", {"images": {"file_name": "b" * 5000}}, r"1 image \(.*b+\) of 1 not on the disk; unpack the images"),
        ("masks", {"images": {"width": 41}}, r"1 image \(.*a.png: 40 x 30 pixels where 41 x 30 are annotated\)"),
        ("masks", {"annotations": {"image_id": 6}}, r"1 annotation \(7\) whose image_id is not in images"),
        ("masks", {"annotations": {"category_id": 1}}, r"1 annotation \(7\) whose category_id is not in categories"),
        ("masks", {"annotations": {"bbox": [2, 3, 0, 9]}}, r"1 annotation \(7\) without area.*drop_empty: true"),
        ("masks", {"annotations": {"segmentation": [[1, 1, 2, 2]]}}, r"1 annotation \(7\) without area"),
        ("masks", {"annotations": {"bbox": [1, 2, 3]}}, r"annotation 7 has the bbox \[1, 2, 3\]; expected x, y, width"),
        ("masks", {"annotations": {"bbox": [1, 2, 3, float("nan")]}}, "expected x, y, width and height in pixels"),
        ("masks", {"annotations": {"id": "7"}}, "an entry of annotations has the id '7'; every one needs a whole"),
        ("masks", {"images": {"neg_category_ids": []}}, "is a file of LVIS .*; read it as kind lvis"),
        *(
            ("masks", records() | {part: 2 * records()[part]}, rf"id \d stands twice in {part}; ids are unique")
            for part in COCO
        ),
        (
            *("keypoints", {"categories": POINTS, "annotations": {"keypoints": [1, 2, 2] * 16}}),
            r"annotation 7 has the keypoints of 48 values \[1, .*; expected 17 x 3 = 51",
        ),
        (
            *("keypoints", {"annotations": {"keypoints": [1, 2, 2] * 17}}),
            "has 1 categories, of which 0 have keypoints; expected the one",
        ),
        (
            "lvis",
            {"images": {"neg_category_ids": [3]}},
            r"image 5 has the neg_category_ids \[3\]; expected categories without an annotation \(image 5 has",
        ),
        ("lvis", {"images": {"coco_url": "a.png"}}, "image 5 has the coco_url 'a.png'; expected an address that ends"),
        ("lvis", {"categories": {"frequency": "x"}}, "category 3 has the frequency 'x'; expected one of r, c, f"),
        ("lvis", {"images": {"neg_category_ids": ...}}, r"is not a file of LVIS \(images without neg_category_ids\)"),
    ],
)
def test_a_file_that_cannot_be_trained_on_is_refused(kind, content, sentence, tmp_path):
    if isinstance(content, dict) and not any(isinstance(part, list) for part in content.values()):
        content = records(LVIS, content) if kind == "lvis" else records(content)
    with pytest.raises(InputError, match=sentence):
        read(tmp_path, content, kind)


def test_objects_without_area_are_left_out_where_that_is_asked_for_and_counted(tmp_path, caplog):
    content = records()
    content["annotations"] += [content["annotations"][0] | {"id": number, "bbox": [1, 1, 5, 0]} for number in (8, 9)]
    assert len(read(tmp_path, content, drop_empty=True).pictures[0].instances) == 1
    assert "2 annotations (8, 9) without area left out" in caplog.text
    assert voc(tmp_path, XML.replace(">10</xmax>", ">0</xmax>"), drop_empty=True).pictures[0].instances == ()


def test_an_image_on_its_side_is_as_large_as_it_is_once_turned_and_detectors_see_it_upright(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    (picture,) = read(tmp_path, records({"images": {"width": 30, "height": 40}}), exif=exif).pictures
    assert picture.width == 30
    pixels = Image.new("RGB", (40, 30))
    pixels.paste((255, 0, 0), (0, 0, 40, 15))  # its upper half, which the turn moves to the right
    pixels.save(picture.file, exif=exif)
    red = read_image(picture)[0]
    assert red.shape == (40, 30)
    assert (red[:, :15].max(), red[:, 15:].min()) == (0, 1)
    picture.file.write_bytes(picture.file.read_bytes()[:60])
    with pytest.raises(InputError, match=r"a.png: no image that can be read \(.*\); put the data set there again"):
        read_image(picture)


SMALL = {"size": [30, 40]}  # run lengths of the picture
SHAPES = (
    *("abc", 5, SMALL, {"counts": [1200]}, SMALL | {"counts": 7}, {"size": [40, 30], "counts": [600, 600]}),
    *(
        SMALL | {"counts": counts}
        for counts in ([600, 601], [10], [-5, 1205], [1199.5, 0.5], ["a"], [], [2**70], "", "zz")
    ),
    *(SMALL | {"counts": counts} for counts in ("P" * 10**6, "oo", "猫")),
    *([[1, 1, 6, 1, at, 6]] for at in (float("nan"), float("inf"), 1e9, 10**400, None, True, "6")),
    *([1, 1, 6, 1, 6, 6], [[1, 1, 42, 1, 6, 6]], [[-2, 1, 4, 1, 6, 6]]),
)
BOXES = (None, "abc", [1, 2, "3", 4], [1, 2, True, 4], [1e308, 2, 3, 4], [-2, 2, 9, 9], [50, 2, 9, 9], [2, 3, 40, 9])
POINT = ([float("nan"), 5, 2], [4, float("inf"), 2], [4, 5, 9], [4, 5, 1.5], ["4", 5, 2], [42, 5, 1], [4, -2, 1])


@pytest.mark.parametrize(
    ("kind", "part", "key", "value"),
    [
        *(("masks", "annotation 7", "segmentation", value) for value in SHAPES),
        *(("boxes", "annotation 7", "bbox", value) for value in BOXES),
        *(("keypoints", "annotation 7", "keypoint nose", value) for value in POINT),
        *(("boxes", "annotation 7", "area", value) for value in (None, "9", -5, float("nan"), 1e308, 10**400, True)),
        *(("boxes", "annotation 7", "iscrowd", value) for value in (None, "0", 2, [])),
        *(("boxes", "image 5", "width", value) for value in (..., "40", 40.0, 0, True)),
        *(("boxes", "image 5", "file_name", value) for value in (..., None, 5, "")),
        *(("boxes", "category 3", "name", value) for value in (..., None, 5, " ", "\ud800")),
        *(
            ("keypoints", "category 3", "keypoints", value)
            for value in ("abc", [], PERSON[:16], [*PERSON, "nose"], [1] * 17)
        ),
        *(("keypoints", "category 3", "skeleton", value) for value in (5, [[1]], [[0, 1]], [[1, 18]], [["a", "b"]])),
        *(("lvis", "image 5", "neg_category_ids", value) for value in (None, "abc", ["3"], [9], [[3]])),
        *(("lvis", "image 5", "not_exhaustive_category_ids", value) for value in (5, [9])),
    ],
)
def test_a_bad_value_is_refused_with_its_file_its_entry_and_its_key(kind, part, key, value, tmp_path):
    points = {"categories": POINTS, "annotations": {"keypoints": [4, 5, 2] * 17}} if kind == "keypoints" else {}
    known = LVIS | {"images": LVIS["images"] | {"neg_category_ids": []}} if kind == "lvis" else {}
    bad = {"keypoints": value + [4, 5, 2] * 16} if key == "keypoint nose" else {key: value}
    whole = {"annotation 7": "annotations", "image 5": "images", "category 3": "categories"}[part]
    with pytest.raises(
        InputError, match=rf"^\S*some.json: {part} has the {key} [^\n]{{0,120}}; expected [^\n]{{4,120}}$"
    ):
        read(tmp_path, records(known, points, {whole: bad}), kind)


def test_what_files_of_coco_have_is_read(tmp_path):
    """Boxes rounded out of the picture, two points beside a polygon, run lengths, an eight, points without a label."""
    cut = read(tmp_path, records({"annotations": {"bbox": [2, 3, 38.01, 27.01]}}))
    assert cut.pictures[0].instances[0].box == (2, 3, 38.01, 27.01)
    for shape, pixels in (
        ([[1, 1, 2, 2], [2, 3, 12, 3, 12, 13, 2, 13]], 100),
        ({"size": [30, 40], "counts": [30, 60, 1110]}, 60),
        (run_lengths(filled(1, 2, 20, 9, (30, 40))), 180),
        ([[2, 2, 12, 12, 12, 2, 2, 12]], None),
    ):
        (one,) = read(tmp_path, records({"annotations": {"segmentation": shape}})).pictures[0].instances
        assert decode_mask(one, 30, 40).sum() == (pixels or pytest.approx(50, abs=12))
    unseen = {"categories": POINTS, "annotations": {"keypoints": [-90, 99, 0] * 16 + [39, 29, 2.0]}}
    assert read(tmp_path, records(unseen), "keypoints").pictures[0].instances[0].keypoints[-3:] == (39, 29, 2)


@pytest.mark.parametrize(
    "shape",
    [[[1, 1, 5, 1, 9, 1]], [[3, 3] * 3], [], None, {"size": [30, 40], "counts": [1200]}],
)
def test_segmentations_that_cover_nothing_have_no_area(shape, tmp_path):
    with pytest.raises(InputError, match=r"1 annotation \(7\) without area, .*drop_empty: true"):
        read(tmp_path, records({"annotations": {"segmentation": shape}}))


@pytest.mark.parametrize(
    ("part", "number"), [("images", 2**70), ("categories", True), ("annotations", None), ("images", 5.0)]
)
def test_ids_are_whole_numbers_of_64_bits(part, number, tmp_path):
    with pytest.raises(InputError, match=f"an entry of {part} has the id .*; every one needs a whole number below 2"):
        read(tmp_path, records({part: {"id": number}}))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("[" * 10**5, "recursion"),
        ("FIFO", "a pipe or a device"),
        (records({"annotations": {"area": 9}}) | {"images": []}, "no image"),
    ],
)
def test_deep_files_pipes_and_files_without_images_are_a_sentence(content, reason, tmp_path):
    path = tmp_path / "some.json"
    os.mkfifo(path) if content == "FIFO" else path.write_text(
        content if isinstance(content, str) else json.dumps(content)
    )
    with pytest.raises(InputError, match=f"some.json [^\n]*{reason}[^\n]*; fetch it again"):
        read_coco(path, tmp_path, "boxes", False)


def test_a_voc_box_from_the_first_to_the_tenth_pixel_is_ten_wide_and_categories_are_those_of_the_lists(tmp_path):
    split = voc(tmp_path)
    (one,) = split.pictures[0].instances
    assert (one.box, one.area, one.difficult) == ((0.0, 10.0, 10.0, 20.0), 200.0, True)
    assert [(category.id, category.name) for category in split.categories] == [(1, "dog")]
    for name in ("cat", "dog"):
        (tmp_path / f"ImageSets/Main/{name}_test.txt").write_text("1 -1\n")
    split = voc(tmp_path)
    assert [category.name for category in split.categories] == ["cat", "dog"]
    assert split.pictures[0].instances[0].category == 2
    (tmp_path / "ImageSets/Main/dog_test.txt").unlink()
    with pytest.raises(InputError, match=r"1.xml has an object of 'dog', not a class of this set \(cat\)"):
        voc(tmp_path)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"image_set": "1\n2\n"}, "2.xml is missing or no whole XML file"),
        ({"image_set": "1\n1\n"}, r"test.txt lists 1 image \(1\) twice; correct it"),
        ({"image_set": ""}, "test.txt lists no image"),
        ({"xml": XML[:-9]}, "1.xml is missing or no whole XML file .*; fetch it again"),
        ({"xml": XML.replace("<xmax>10</xmax>", "")}, "1.xml has no bndbox/xmax; expected an annotation file of VOC"),
        ({"xml": XML.replace(">30</ymax>", ">x</ymax>")}, "has 'x' as bndbox/ymax; expected a whole number of pixels"),
        ({"xml": XML.replace(">10</xmax>", ">0</xmax>")}, r"1 object \(1.xml\) without area"),
        ({"xml": XML.replace(">1</difficult>", ">maybe</difficult>")}, "has the difficult 'maybe'; expected 0 or 1"),
        *(
            (
                {"xml": XML.replace(">10</xmax>", f">{edge}</xmax>")},
                r"an object of 'dog' has the bbox \[0, 10, .*; expected",
            )
            for edge in ("42", "1e308")
        ),
        ({"xml": '<?xml version="1.0" encoding="xyz"?>' + XML}, "1.xml is missing or no whole XML file .*xyz"),
        ({"image_set": "\udce9\n"}, r"test.txt cannot be read \('utf-8' codec .*; .* needs JPEGImages"),
        ({"xml": XML.replace("<width>40", "<width>44")}, "40 x 30 pixels where 44 x 30 are annotated"),
    ],
)
def test_a_voc_folder_that_cannot_be_trained_on_is_refused(changes, sentence, tmp_path):
    with pytest.raises(InputError, match=sentence):
        voc(tmp_path, **changes)


def test_a_voc_image_is_the_one_with_the_name_of_its_xml_file(tmp_path, caplog):
    assert voc(tmp_path).pictures[0].file == tmp_path / "JPEGImages/1.png"
    assert not caplog.text
    for named in ("b.png", "/home/me/1.png"):
        assert voc(tmp_path, XML.replace("1.png", named)).pictures[0].file == tmp_path / "JPEGImages/1.png"
    assert caplog.text.count("1 annotation (1.xml) with another <filename>") == 1
    with pytest.raises(InputError, match=r"1 image \(.*JPEGImages/1.jpg\) of 1 not on the disk"):
        voc(tmp_path, XML.replace("<filename>1.png</filename>", ""))


def test_folders_without_their_files_and_splits_of_different_categories_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"none.json does not exist; put the annotation file there"):
        read_coco(tmp_path / "none.json", tmp_path, "boxes", False)
    with pytest.raises(InputError, match=r"test.txt cannot be read .*needs JPEGImages, Annotations and ImageSets/Main"):
        read_voc(tmp_path, "test", False)
    read(tmp_path, records())
    (tmp_path / "annotations").mkdir()
    for split, last in (("train", "dog"), ("val", "cow")):
        (tmp_path / f"{split}2017").symlink_to("images")
        content = records() | {"categories": [{"id": 3, "name": "cat"}, {"id": 4, "name": last}]}
        (tmp_path / f"annotations/instances_{split}2017.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"2 categories differ .*4 'cow' in val only, 4 'dog' in train"):
        read_splits(tmp_path, "boxes", False)


@pytest.mark.parametrize(
    ("part", "same", "sentence"),
    [
        ("train", [], "no picture of train has an object; annotate some"),
        ("val", ["a.png", "./a.png"], r"val lists 1 image \(\S+val2017/a.png\) more than once; keep one entry"),
        (
            "val",
            ["../train2017/b.png"],
            r"1 image \(\S+train2017/b.png\) of train are in val too, .*; remove them from one",
        ),
    ],
)
def test_splits_without_objects_or_with_a_picture_twice_are_refused(part, same, sentence, tmp_path):
    for split, names in (("train", ["b.png"]), ("val", ["a.png"])):
        content = records()
        image, one = content["images"][0], content["annotations"][0]
        names = same if same and part == split else names
        content["images"] = [image | {"id": number, "file_name": name} for number, name in enumerate(names)]
        content["annotations"] = [one | {"image_id": 0}] if same or part != split else []
        (tmp_path / f"{split}2017").mkdir()
        Image.new("RGB", (40, 30)).save(tmp_path / f"{split}2017" / ("b.png" if split == "train" else "a.png"))
        (tmp_path / "annotations").mkdir(exist_ok=True)
        (tmp_path / f"annotations/instances_{split}2017.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match=sentence):
        read_splits(tmp_path, "boxes", False)
