"""SVG of the annulus around one image, from the main line's embeddings (`annulus picture`).

A point is one row of the memory. Its distance from the centre is its angle to the query, to scale. Its direction is a
projection, with the query's k-means cluster on the left. annulus.diagnostics.scene selects a typical query.

A second picture shows annealing: the candidate set of the same query at several epochs of training, at one scale.
"""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Bool
from torch import Tensor

from annulus.diagnostics.scene import Moment, Scene

LARGE, SMALL = 200, 76  # radii of the discs, in units of the picture
RIM = {LARGE: 2.0, SMALL: 1.3}  # angle at the rim, in radii of the ball; farther rows are not drawn
EVERY = 4  # a disc of the annealing shows every fourth row

# Of the light page, and of the dark page.
COLOURS = {
    "ground": ("#ffffff", "#0d1117"),
    "ink": ("#1b1d20", "#e6e6e1"),
    "soft": ("#59616b", "#9aa3ad"),
    "far": ("#c3c8ce", "#525b66"),
    "uniform": ("#1560a8", "#6fb2ee"),
    "ball": ("#c24e0a", "#f0955c"),
    "ring": ("#0b7d59", "#4ec59a"),
    "cave": ("#8540a6", "#c894e4"),
}


def annealing_svg(moments: Sequence[Moment]) -> str:
    """Draws the picture of the annealing: a disc for each epoch, at one scale."""
    radius, pitch = 88, 1000 / len(moments)
    unit = radius / max(float(moment.angle.quantile(0.99)) for moment in moments)
    parts = _opened(1000, 268, "The candidate set shrinks from the whole memory to the annulus while training goes on")
    for place, moment in enumerate(moments):
        x, y = round(pitch * (place + 0.5)), 104
        borders = [float(getattr(moment.angle[moment.members], end)()) for end in ("min", "max")]
        drawn = torch.zeros_like(moment.members)
        drawn[::EVERY] = unit * moment.angle[::EVERY] <= radius
        parts.append(f'<circle cx="{x}" cy="{y}" r="{radius + 3}" class="l" style="stroke:var(--far)"/>')
        for some, colour, width in ((~moment.members, "far", 2.0), (moment.members, "ring", 2.6)):
            dots = zip(moment.angle[some & drawn].tolist(), moment.direction[some & drawn].tolist(), strict=True)
            path = "".join(f"M{a:.0f} {b:.0f}h0" for a, b in (_place(*dot, x, y, unit) for dot in dots))
            parts.append(f'<path class="d" stroke="var(--{colour})" stroke-width="{width}" d="{path}"/>')
        parts += [
            f'<circle cx="{x}" cy="{y}" r="{unit * border:.1f}" class="l" style="stroke:var(--ink)"/>'
            for border in borders
        ]
        parts.append(f'<circle cx="{x}" cy="{y}" r="3.5" class="m" fill="var(--ink)"/>')
        inner, outer = (_percent(round(share, 4)) for share in moment.shares)
        texts = [
            ("b", f"epoch {moment.epoch}"),
            ("s", f"closest {outer} without {inner}"),
            *(("s", line) for line in _class_lines(moment.same_class_percent, 1)),
        ]
        for line, (style, text) in enumerate(texts):
            parts.append(f'<text class="{style}" x="{x}" y="{y + 116 + 17 * line}" text-anchor="middle">{text}</text>')
    return "\n".join([*parts, "</svg>\n"])


def svg(scene: Scene) -> str:
    """Draws the annulus with its names, and the four samplers' candidate sets beside it."""
    parts = _opened(1000, 450, "The annulus: negatives that are close to the query, but not closest")
    parts += _annulus(scene)
    texts = {
        "uniform": "the whole memory",
        "ball": f"the closest {_percent(scene.share['outer'])}",
        "ring": f"ball without its closest {_percent(scene.share['inner'])}",
        "cave": "ball without query's cluster",
    }
    for place, (name, words) in enumerate(texts.items()):
        x, y = 718 + 188 * (place % 2), 90 + 218 * (place // 2)
        parts += _disc(scene, name, x, y)
        rate = _class_lines(scene.same_class_percent[name])
        for line, (style, text) in enumerate([("b", name), ("s", words), *(("s", line) for line in rate)]):
            colour = f' style="fill:var(--{name})"' if style == "b" else ""
            height = y + 96 + 16 * line
            parts.append(f'<text class="{style}" x="{x}" y="{height}" text-anchor="middle"{colour}>{text}</text>')
    return "\n".join([*parts, "</svg>\n"])


def _opened(width: int, height: int, title: str) -> list[str]:
    """First lines of an SVG: size, title, styles of both pages, and background."""
    light = "".join(f"--{name}:{colour};" for name, (colour, _) in COLOURS.items())
    dark = "".join(f"--{name}:{colour};" for name, (_, colour) in COLOURS.items())
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-labelledby="t">',
        f'<title id="t">{title}</title>',
        f"<style>svg{{{light}}}@media(prefers-color-scheme:dark){{svg{{{dark}}}}}",
        "text{font:13px system-ui,-apple-system,'Segoe UI',Roboto,'Noto Sans',sans-serif;fill:var(--ink)}",
        "text.b{font-weight:600}text.s{fill:var(--soft);font-size:12px}.d{fill:none;stroke-linecap:round}",
        ".l{fill:none;stroke-width:1.1}.m{stroke:var(--ground);stroke-width:1.5}</style>",
        f'<rect width="{width}" height="{height}" rx="10" fill="var(--ground)"/>',
    ]


def _annulus(scene: Scene) -> list[str]:
    """Lines of the large disc, with a line from each part to its name."""
    x, y = 214, 225
    unit = _unit(scene, LARGE)
    hole, between = (unit * float(scene.angle[scene.members[name]].max()) for name in ("inner", "ball"))
    circle = "M{0:.1f} {1}a{2:.1f} {2:.1f} 0 1 0 {3:.1f} 0a{2:.1f} {2:.1f} 0 1 0 -{3:.1f} 0"
    band = "".join(circle.format(x - r, y, r, 2 * r) for r in (between, hole))
    cluster = _places(scene, scene.members["ball"] & ~scene.members["cave"], x, y, unit)
    px, py = _place(*scene.positive, x, y, unit)
    parts = [
        f'<path d="{band}" fill="var(--ring)" fill-opacity=".13" fill-rule="evenodd"/>',
        f'<circle cx="{x}" cy="{y}" r="{between:.1f}" class="l" style="stroke:var(--ring)"/>',
        f'<circle cx="{x}" cy="{y}" r="{hole:.1f}" class="l" style="stroke:var(--ball)"/>',
        _dots(scene, ~scene.members["ball"], "far", 2.6, x, y, LARGE),
        _dots(scene, scene.members["ring"], "ring", 4.0, x, y, LARGE),
        _dots(scene, scene.members["inner"], "ball", 4.0, x, y, LARGE),
        *(
            f'<circle cx="{a:.1f}" cy="{b:.1f}" r="4.8" class="l" style="stroke:var(--cave);stroke-width:1.7"/>'
            for a, b in cluster
        ),
        f'<circle cx="{x}" cy="{y}" r="5.5" class="m" fill="var(--ink)"/>',
        f'<path d="M{px:.1f} {py - 6.5:.1f}l6.5 6.5-6.5 6.5-6.5-6.5z" class="m" fill="var(--uniform)"/>',
    ]
    lowest = max(cluster, default=(x, y), key=lambda at: at[1])
    percent = scene.same_class_percent
    inner, outer = _percent(scene.share["inner"]), _percent(scene.share["outer"])
    ring = [
        "hard negatives: the closest",
        f"{outer} without the closest {inner}",
        *_class_lines(percent["ring"]),
    ]
    names = [
        ("soft", "memory", ["one row per image;", "most are easy negatives"], (x + 0.72 * LARGE, y - 0.62 * LARGE)),
        ("ring", "annulus, or ring", ring, (x + 0.72 * between, y - 0.6 * between)),
        ("uniform", "positive", ["the row of the same image"], (px, py)),
        ("ink", "query", ["a view of an image"], (x, y)),
        (
            "ball",
            "inner ball",
            [f"closest {inner}: too close", *_class_lines(percent["inner"])],
            (x + 0.8 * hole, y + 0.6 * hole),
        ),
        ("cave", "the query's cluster", ["by k-means; cave leaves it out"], lowest),
    ]
    height = 48
    for colour, name, lines, (a, b) in names:
        parts.append(f'<path class="l" d="M{a:.1f} {b:.1f}L424 {height - 4}h8" style="stroke:var(--{colour})"/>')
        parts.append(f'<text class="b" x="438" y="{height}" style="fill:var(--{colour})">{name}</text>')
        for line in lines:
            height += 16
            parts.append(f'<text class="s" x="438" y="{height}">{line}</text>')
        height += 34
    return parts


def _disc(scene: Scene, name: str, x: int, y: int) -> list[str]:
    """Lines of a small disc: one sampler's candidate set among the other rows."""
    return [
        f'<circle cx="{x}" cy="{y}" r="{SMALL + 3}" class="l" style="stroke:var(--far)"/>',
        _dots(scene, ~scene.members[name], "far", 1.8, x, y, SMALL),
        _dots(scene, scene.members[name], name, 2.6, x, y, SMALL),
        f'<circle cx="{x}" cy="{y}" r="3.5" class="m" fill="var(--ink)"/>',
    ]


def _dots(scene: Scene, some: Bool[Tensor, "n"], colour: str, width: float, x: int, y: int, radius: int) -> str:
    """Rows within a disc's rim as one path of dots, which are lines of length 0 with round ends."""
    unit = _unit(scene, radius)
    places = _places(scene, some & (unit * scene.angle <= radius), x, y, unit)
    path = "".join(f"M{a:.1f} {b:.1f}h0" for a, b in places)
    return f'<path class="d" stroke="var(--{colour})" stroke-width="{width}" d="{path}"/>'


def _places(scene: Scene, some: Bool[Tensor, "n"], x: int, y: int, unit: float) -> list[tuple[float, float]]:
    pairs = zip(scene.angle[some].tolist(), scene.direction[some].tolist(), strict=True)
    return [_place(angle, direction, x, y, unit) for angle, direction in pairs]


def _place(angle: float, direction: float, x: int, y: int, unit: float) -> tuple[float, float]:
    return x + unit * angle * math.cos(direction), y - unit * angle * math.sin(direction)


def _unit(scene: Scene, radius: int) -> float:
    """Units of the picture per degree, in a disc of this radius."""
    return radius / (RIM[radius] * float(scene.angle[scene.members["ball"]].max()))


def _class_lines(percent: float | None, digits: int = 0) -> list[str]:
    """Line of text with the share of a set that has the query's class; empty without classes."""
    return [] if percent is None else [f"{percent:.{digits}f} % have its class"]


def _percent(share: float) -> str:
    return f"{100 * share:g} %"
