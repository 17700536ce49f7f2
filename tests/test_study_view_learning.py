"""The study of learned views as a user runs it, at `scale: tiny` and cut to a random and a learned generator."""

import shutil

import pytest
from checkout import Checkout, ran, rows_of
from PIL import Image

pytestmark = pytest.mark.slow

STUDY = "view_learning"
KEPT = ["random-rest-rgb", "semi-supervised-rgb"]


def two_generators(content: dict) -> None:
    content |= {"scale": "tiny", "seeds": [0, 1]}
    content["pairs"] = {KEPT[1]: [KEPT[0]]}
    content["generators"] = {name: content["generators"][name] for name in KEPT}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory) -> Checkout:
    """The study, run from nothing."""
    checkout = Checkout(tmp_path_factory.mktemp("annulus"), STUDY)
    checkout.cut(STUDY, two_generators)
    stages = ran(checkout.dvc("repro", study=STUDY))
    assert set(stages) == {"settings", "images", *(f"generator@{name}" for name in KEPT), "views", "pictures"}
    checkout.commit()
    return checkout


def test_the_table_has_the_raw_channels_and_each_generator_beside_them(checkout):
    rows = rows_of(checkout.project(STUDY) / "metrics/points.csv")
    assert [row["series"] for row in rows] == ["raw-rgb", *KEPT]
    assert [row["learns"] for row in rows] == ["raw input", "nothing", "semi-supervised"]
    assert [row["linear_verdict"] == "base" for row in rows] == [True, False, False]
    assert [row["table"] for row in rows] == ["infomin.table2", "", "infomin.table2"]
    (pair,) = rows_of(checkout.project(STUDY) / "metrics/pairs.csv")
    gains = [float(row["linear_gain_percent"]) for row in rows]
    assert float(pair["gain_percent"]) == pytest.approx(gains[2] - gains[1], abs=0.011)
    assert len({row["bound_nats"] for row in rows}) == 3, "each has views of its own"
    for row in rows:
        assert float(row["held_out_nats"]) <= float(row["held_out_ceiling_nats"]) == pytest.approx(6.9315)
        assert (row["seeds"], row["scale"], row["backbone"]) == ("2", "tiny", "convnet")


def test_the_picture_has_a_row_for_each_generator_and_the_curves_those_that_learn(checkout):
    with Image.open(checkout.project(STUDY) / "metrics/views.png") as picture:
        assert len(picture.convert("L").getcolors(256)) > 100
    rows = rows_of(checkout.project(STUDY) / "metrics/curves.csv")
    assert {row["series"] for row in rows} == {"semi-supervised-rgb"}
    assert [row["step"] for row in rows] == ["1", "2", "3", "4"]
    assert all(float(row["shared_nats"]) < 2.78 and float(row["classified_nats"]) > 0 for row in rows)


def test_a_generator_is_made_of_the_training_images_alone(checkout, tmp_path):
    """The folder holds no validation and no test images."""
    data, name = checkout.project(STUDY) / "data", KEPT[1]
    (tmp_path / "images").mkdir()
    shutil.copy(data / "images/train.safetensors", tmp_path / "images")
    settings = {"settings": data / f"settings/generators/{name}.json", "images": tmp_path / "images"}
    options = [word for key, path in (settings | {"generator": tmp_path / name}).items() for word in (f"--{key}", path)]
    checkout.run("stages", "view_learning/generator", *map(str, options))
    for file in ("0.safetensors", "1.safetensors", "curves.json"):
        assert (tmp_path / name / file).read_bytes() == (data / "generators" / name / file).read_bytes()


def test_an_edit_of_a_generator_trains_that_one_and_its_encoders_anew(checkout):
    before = rows_of(checkout.project(STUDY) / "metrics/points.csv")
    checkout.cut(STUDY, lambda content: content["generators"][KEPT[1]].update({"generator_rate": 0.5}))
    output = checkout.dvc("repro", study=STUDY)
    assert set(ran(output)) == {"settings", f"generator@{KEPT[1]}", "views", "pictures"}
    assert "4 of 6 runs have their outcome" in output
    after = rows_of(checkout.project(STUDY) / "metrics/points.csv")
    assert after[:2] == before[:2]
    assert after[2] != before[2]
