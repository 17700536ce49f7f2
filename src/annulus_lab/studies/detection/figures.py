"""Drawn persons with the 17 keypoints of COCO: a head, a body and limbs, seen from the front or from behind.

Lengths are in thousandths of the height. Left and right are the person's own: seen from the front, the left side lies
at the right of the picture.
"""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Int32

from annulus.datasets.draws import Draws, cosine_sine
from annulus.datasets.shapes import TURN, colour
from annulus_lab.studies.detection.annotated import PERSON

PlanePoint = tuple[float, float]

SIDES = ("left", "right")
TORSO, NECK, SHOULDER, HIP = 300, 130, 105, 65  # shoulders and hips: from the middle
UPPER_ARM, FOREARM, THIGH, SHIN = 165, 155, 225, 215
HEAD, EYE, EAR = 75, (28, 22), (68, 8)  # of an eye and an ear: to the side and above the nose
LIMB, TRUNK = 30, 75  # half widths


def draw_figure(
    draws: Draws, size: int
) -> tuple[Int32[np.ndarray, "h w"], Int32[np.ndarray, "3 h w"], list[tuple[int, int, bool]]]:
    """Draws a person: coverage of each pixel in 1/256, colours, and the pixel and visibility of each keypoint.

    A person seen from behind has no visible nose and eyes.
    """
    height = _below(draws, size * 45 // 100, size * 95 // 100)
    front = _below(draws, 0, 4) > 0
    joints = _joints(draws, 1 if front else -1)
    middle = (_below(draws, size * 15, size * 85) / 100, _below(draws, size * 35, size * 65) / 100)
    at = {name: (middle[0] + x * height / 1000, middle[1] + y * height / 1000) for name, (x, y) in joints.items()}
    cover = np.zeros((size, size), dtype=np.int32)
    paint = np.zeros((3, size, size), dtype=np.int32)
    skin, shirt, trousers = _colours(draws)
    for first, last, width, tint in _parts(skin, shirt, trousers):
        place, layer = _capsule(size, at[first], at[last], width * height / 1000)
        share = np.where(layer > cover[place], 256, layer)  # avoids a dark seam between two parts
        paint[:, *place] += ((tint - paint[:, *place]) * share) >> 8
        cover[place] = np.maximum(cover[place], layer)
    if front:
        for name, tint in (("left_eye", 20), ("right_eye", 20), ("nose", 90)):
            place, layer = _capsule(size, at[name], at[name], 14 * height / 1000)
            paint[:, *place] += ((tint - paint[:, *place]) * layer) >> 8
    hidden = () if front else ("nose", "left_eye", "right_eye")
    return cover, paint, [(int(at[name][0] // 1), int(at[name][1] // 1), name not in hidden) for name in PERSON]


def _joints(draws: Draws, side: int) -> Mapping[str, PlanePoint]:
    """Positions of the keypoints and of the ends of limbs, from the hips' middle.

    `side` is 1 if the person's left lies at the picture's right, -1 otherwise.
    """
    lean = _below(draws, -60, 61)
    up = _turned((0.0, -1.0), lean)
    across = (-up[1] * side, up[0] * side)  # towards the person's left
    joints: dict[str, PlanePoint] = {"hips": (0.0, 0.0), "chest": _from((0.0, 0.0), up, TORSO)}
    joints["nose"] = _from(joints["chest"], _turned(up, _below(draws, -40, 41)), NECK)
    for name, sign in zip(SIDES, (1, -1), strict=True):
        outwards = (across[0] * sign, across[1] * sign)
        for part, (aside, above) in (("eye", EYE), ("ear", EAR)):
            joints[f"{name}_{part}"] = _from(_from(joints["nose"], outwards, aside), up, above)
        joints[f"{name}_shoulder"] = _from(joints["chest"], outwards, SHOULDER)
        joints[f"{name}_hip"] = _from(joints["hips"], outwards, HIP)
        # An arm hangs (0) or is raised (up to 140 degrees); a leg spreads by up to 40. Elbows and knees bend.
        turn = -sign * side
        arm, elbow = _below(draws, 10, 400), _below(draws, -60, 300)
        leg, knee = _below(draws, -20, 115), _below(draws, -110, 30)
        for start, middle, end, lengths, angle, bend in (
            ("shoulder", "elbow", "wrist", (UPPER_ARM, FOREARM), arm, elbow),
            ("hip", "knee", "ankle", (THIGH, SHIN), leg, knee),
        ):
            bent = _from(joints[f"{name}_{start}"], _turned((0.0, 1.0), turn * angle), lengths[0])
            joints[f"{name}_{middle}"] = bent
            joints[f"{name}_{end}"] = _from(bent, _turned((0.0, 1.0), turn * (angle + bend)), lengths[1])
    return joints


def _parts(skin: np.ndarray, shirt: np.ndarray, trousers: np.ndarray) -> list[tuple[str, str, int, np.ndarray]]:
    """Capsules from back to front: their ends, half widths and colours."""
    legs = [("hip", "knee", LIMB + 8, trousers), ("knee", "ankle", LIMB, trousers)]
    arms = [("shoulder", "elbow", LIMB, shirt), ("elbow", "wrist", LIMB - 5, skin)]
    return [
        *((f"{side}_{first}", f"{side}_{last}", wide, tint) for side in SIDES for first, last, wide, tint in legs),
        ("left_hip", "right_hip", LIMB + 10, trousers),
        ("chest", "hips", TRUNK, shirt),
        ("left_shoulder", "right_shoulder", LIMB + 5, shirt),
        ("chest", "nose", LIMB, skin),
        *((f"{side}_{first}", f"{side}_{last}", wide, tint) for side in SIDES for first, last, wide, tint in arms),
        ("nose", "nose", HEAD, skin),
    ]


def _colours(draws: Draws) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Colours of skin, shirt and trousers, each (3, 1, 1)."""
    skin = colour(draws.integers(60, 140), draws.integers(70, 150), draws.integers(130, 240))[0]
    shirt, trousers = (
        colour(draws.integers(0, TURN), draws.integers(60, 220), draws.integers(110, 240))[0] for _ in range(2)
    )
    return skin, shirt, trousers


def _capsule(
    size: int, first: PlanePoint, last: PlanePoint, radius: float
) -> tuple[tuple[slice, slice], Int32[np.ndarray, "h w"]]:
    """Part of the picture, and the coverage of its pixels, in 1/256, by all points within a radius of a line."""
    (left, right), (top, bottom) = (
        (max(int(min(ends) - radius - 1), 0), max(int(max(ends) + radius + 2), 0))
        for ends in zip(first, last, strict=True)
    )
    place = slice(top, min(bottom, size)), slice(left, min(right, size))
    middle = np.arange(size, dtype=np.float64) + 0.5
    dx, dy = middle[None, place[1]] - first[0], middle[place[0], None] - first[1]
    along = (last[0] - first[0], last[1] - first[1])
    length = along[0] * along[0] + along[1] * along[1]
    share = np.clip((dx * along[0] + dy * along[1]) / length, 0.0, 1.0) if length > 0 else np.zeros(1)
    far = np.sqrt((dx - share * along[0]) ** 2 + (dy - share * along[1]) ** 2)
    return place, np.clip((radius - far + 0.5) * 256, 0, 256).astype(np.int32)


def _turned(direction: PlanePoint, angle: int) -> PlanePoint:
    cosine, sine = (int(part[0]) / 4096 for part in cosine_sine(np.array([angle])))
    return direction[0] * cosine - direction[1] * sine, direction[0] * sine + direction[1] * cosine


def _from(point: PlanePoint, direction: PlanePoint, length: int) -> PlanePoint:
    return point[0] + direction[0] * length, point[1] + direction[1] * length


def _below(draws: Draws, low: int, high: int) -> int:
    """Draws a whole number in [low, high)."""
    return int(draws.integers(low, high).item())
