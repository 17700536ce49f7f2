"""The law's figures and sentences: gains over the weight of the closest tenth, or over a temperature."""

import re

import pytest

from annulus_lab.report.figures.law import (
    APART,
    CONTROLS,
    REAL,
    SYNTHETIC,
    finding,
    later_losses,
    law,
    point_sets,
    sampler_gains,
)
from annulus_lab.report.figures.law_correlations import Point, separation
from annulus_lab.report.page.law_table import law_table

WEIGHTS = {0.05: 96.0, 0.2: 48.0}


def file(*samplers: str, gain: float = 1.0) -> list[dict]:
    """Returns rows of a part. A sampler gains only at the higher temperature."""
    rows = []
    for sampler in ("uniform", *samplers):
        for value, weight in WEIGHTS.items():
            above = 0.0 if sampler == "uniform" or weight > 50 else gain
            verdict = "base" if sampler == "uniform" else "better" if above else "within noise (could see 0.4 points)"
            numbers = {f"{name}_gain_percent": above for name in ("knn", "linear")}
            halves = {f"{name}_gain_interval_percent": 0.3 for name in ("knn", "linear")}
            # The sampler's own encoder has another weight. The point must have the weight of its base.
            own = weight if sampler == "uniform" else weight / 2
            row = {"series": sampler, "value": value, "hard_weight_percent": own, "knn_verdict": verdict}
            rows.append(row | numbers | halves)
    return rows


OTHERS = {  # gain at the higher temperature
    **{"law/moco": 0.7, "law/alexnet": 0.9, "law/resnet18": -1.2, "law/resnet18-long": 1.4},
    **{"full_law/ir": 0.4, "full_law/ir-long": 0.3, "full_law/moco": 0.2, "full_law/moco-long": 0.6},
}
IR = [file("ring", "ball", "cave"), file("ring", gain=-0.5)]
ORACLE = file("oracle", gain=0.3)


def places_in(axes) -> dict[str, list[list[float]]]:
    """Returns the points of each series, moved back to their own places."""
    series = [(bars.get_label(), bars.lines[0].get_xydata()) for bars in axes.containers]
    middle = (len(series) - 1) / 2
    return {
        name: [[pytest.approx(x / APART ** (place - middle)), y] for x, y in points]
        for place, (name, points) in enumerate(series)
    }


def test_points_stand_at_the_weight_of_their_base():
    left, right = law(REAL, *IR, *(file("ring", gain=gain) for gain in OTHERS.values()), ORACLE).axes
    for axes in (left, right):
        places = places_in(axes)
        others = (
            "MoCo",
            "AlexNet",
            "ResNet-18",
            "ResNet-18 for 40 epochs",
            "all images",
            "all images for 60 epochs",
            "MoCo, all images",
            "MoCo, all images for 60 epochs",
        )
        assert set(places) == {"ring", "ball", "cave", *(f"ring, {other}" for other in others)}
        (oracle,) = [line for line in axes.lines if line.get_label() == "oracle"]
        assert oracle.get_xydata().tolist() == [[48.0, 0.3], [96.0, 0.0]]
        assert places["ring"] == [[96.0, 0.0], [48.0, 1.0], [96.0, 0.0], [48.0, -0.5]]
        assert places["ball"] == [[96.0, 0.0], [48.0, 1.0]]
        for name, gain in OTHERS.items():
            name_in_figure = f"ring{REAL[f'{name}.csv'].behind}"
            assert places[name_in_figure] == [[96.0, 0.0], [48.0, gain]], f"{name} stands at its file's place"
    assert tuple(REAL)[2:-1] == tuple(f"{name}.csv" for name in OTHERS)


def test_drawn_images_have_a_figure_of_their_own():
    left, _ = law(SYNTHETIC, IR[0], file("ring", gain=0.7)).axes
    assert {bars.get_label() for bars in left.containers} == {"ring", "ball", "cave", "ring, MoCo"}


def test_later_losses_stand_beside_infonce_of_their_temperature():
    def gains(stem, knn, linear):
        numbers = {f"{stem}knn_gain": knn, f"{stem}gain": linear}
        halves = {f"{name}_interval_percent": 0.3 for name in numbers}
        return {f"{name}_percent": gain for name, gain in numbers.items()} | halves

    gains_by_method = (("IR", 0.0), ("HCL", 1.5), ("late", 7.0), ("oracle", 0.4))
    table = [{"method": name} | gains("here_", knn, 0.5) for name, knn in gains_by_method]
    pairs = [
        {"row": row, "base": base} | gains("", knn, 0.25)
        for row, base, knn in (("HCL warm", "IR warm", 2.5), ("DCL cold", "IR cold", -1.0), ("DCL cold", "oracle", 9.0))
    ]
    left, right = later_losses(table, pairs).axes
    assert places_in(left) == {"HCL": [[0.1, 1.5], [0.25, 2.5]], "DCL": [[0.1, -1.0]]}
    (oracle,) = [line for line in left.lines if line.get_label() == "oracle"]
    assert set(oracle.get_ydata()) == {0.4}, "of one temperature, over all"
    assert places_in(right) == {"HCL": [[0.1, 0.5], [0.25, 0.25]], "DCL": [[0.1, 0.25]]}
    with pytest.raises(ValueError, match="holds no later loss"):
        later_losses(table[:1], [])


def test_the_sentence_tells_rings_at_low_temperatures_from_the_others():
    assert finding(*IR) == (
        "Rings of IR and MoCo against uniform negatives, by kNN: at temperatures from 0.2, -0.5 to +1.0 points "
        "(2 better, of 2); "
        "at temperatures below 0.2, +0.0 to +0.0 points (all within noise, of 2)"
    )


def test_points_are_the_rings_with_the_weight_of_their_base_and_the_temperature():
    files, points = [], []
    for place, gain in enumerate((1.0, 0.5, 2.0)):
        files.append(file("ring", "ball", gain=gain))
        for row in files[-1]:
            row["hard_weight_percent"] += place
        points += [Point(0.0, 96.0 + place, 0.05), Point(gain, 48.0 + place, 0.2)]
    assert point_sets(files, {}) == {("law", "t"): points}


def test_controls_have_the_temperature_of_their_file_and_hcl_s_negatives_a_lower_one():
    files, own, own_negatives = {}, [], []
    for place, (name, (_, temperature, hcl)) in enumerate(CONTROLS.items()):
        files[name] = file("ring", gain=place / 2)
        for row in files[name]:
            row["hard_weight_percent"] += place
            if temperature is not None:
                row["value"] = {0.05: 1.0, 0.2: 3.0}[row["value"]] if hcl else f"setting {row['value']}"
        for gain, weight, value, over in ((0.0, 96.0, 0.05, 2), (place / 2, 48.0, 0.2, 4)):
            own.append(Point(gain, weight + place, temperature or value))
            own_negatives.append(Point(gain, weight + place, (temperature or value) / (over if hcl else 1)))
    law_points = [Point(0.0, 96.0, 0.05), Point(1.0, 48.0, 0.2)]
    every = [*law_points, *own]
    assert point_sets([file("ring")], files) == {
        ("law", "t"): law_points,
        ("law and controls", "t"): every,
        ("law and controls", "of the negatives"): [*law_points, *own_negatives],
        ("controls", "of the negatives"): own_negatives,
        ("controls with HCL", "of the negatives"): own_negatives[: 2 * sum(part.hcl for part in CONTROLS.values())],
        ("law and controls at 0.2", "t"): [point for point in every if point.temperature == 0.2],
    }


def test_a_base_with_a_gradient_of_its_own_gives_its_points_that_weight():
    rows = file("ring")
    for row in rows:
        row["hard_gradient_percent"] = "" if row["value"] == 0.05 else row["hard_weight_percent"] + 7
    assert [gain.weight_percent for gain in sampler_gains(rows)] == [96.0, 55.0]


def test_the_table_has_the_sets_whose_points_differ():
    points = [Point(place % 3, place * 5.0 % 7, place / 8) for place in range(6)]
    sets = {
        ("law", "t"): points,
        ("few", "t"): points[:4],
        ("at 0.2", "t"): [one._replace(temperature=0.2) for one in points],
    }
    table = law_table(sets)
    correlations = separation(points)
    assert [[cell.text for cell in row] for row in table.rows] == [
        ["law", "t", "6", *map(str, correlations)],
        ["at 0.2", "t", "6", str(correlations.gain_with_weight), "", "", "", ""],
    ]
    assert len(table.columns) == len(table.rows[0])
    with pytest.raises(ValueError, match="no points that differ enough"):
        law_table({("few", "t"): points[:4]})


def test_a_value_without_uniform_negatives_is_named():
    rows = [row for row in IR[0] if (row["series"], row["value"]) != ("uniform", 0.2)]
    with pytest.raises(ValueError, match=re.escape("has no series 'uniform' at 0.2")):
        list(sampler_gains(rows))
