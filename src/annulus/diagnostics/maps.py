"""A map of the embeddings as one SVG: dots coloured by class, or small images if there are no classes.

If the pointer is on a dot, CSS enlarges its image and fades the dots of other classes. All images are tiles of one
picture inside the file, which needs no other file.
"""

import base64
import io
import math
from collections.abc import Sequence
from html import escape

import torch
from jaxtyping import Float, Int64
from PIL import Image
from torch import Tensor

from annulus.diagnostics.neighbours import picture
from annulus.evals.plane import MapSettings
from annulus.files.images import ImageSet

MOST, FITTED = 400, 5000  # images on a map; images whose features determine the plane
WIDTH, HEIGHT, EDGE = 640, 460, 12  # of a map of dots
CELL, ENLARGED, LINE = 22, 112, 17  # sides of an image on a map without classes, and under the pointer; a line of text
TILES, MOST_BYTES, QUALITY = (64, 48, 32, 24), 190_000, 60  # pixels a side (the largest that fits the bytes); of WebP
COLOURS = ("#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#ff8ab7", "#a463f2", "#97bbf5", "#9c6b4e", "#9498a0")

Part = tuple[ImageSet, Float[Tensor, "_ d"]]


def short_name(name: str, most: int = 40, end: int = 19) -> str:
    """Shortens a name of more than `most` letters for a legend or a table: its start, and its last `end` letters."""
    return name if len(name) <= most else f"{name[: most - 3 - end]}...{name[-end:]}"


def map_svg(parts: Sequence[Part], settings: MapSettings, random: torch.Generator) -> str:
    """Draws at most 400 images at their places in a plane; up to 5,000 features determine the plane.

    With classes, an image is a dot in its class's colour. Up to ten classes have a legend below the map; more classes
    have colours around the circle of hues. Without classes, it is a small image in the nearest free cell of a grid.

    `parts` are sets with the features of their first images; all have the same classes.
    """
    sources = [(images, row) for images, features in parts for row in range(len(features))]
    fitted = torch.randperm(len(sources), generator=random)[:FITTED]
    plane = settings.plane(torch.cat([features for _, features in parts])[fitted], random)[:MOST]
    chosen = [sources[place] for place in fitted[:MOST].tolist()]
    classes = parts[0][0].classes
    labels = [int(images.labels[row]) if classes else None for images, row in chosen]
    tiles = _Tiles([picture(images, row, TILES[0]) for images, row in chosen])
    if len(classes) > 1:
        return _dots(_spread(plane), [label for label in labels if label is not None], classes, tiles)
    return _grid(on_grid(plane), tiles)


class _Tiles:
    """Images side by side in one picture; the map shows one at a time."""

    def __init__(self, images: Sequence[Image.Image]) -> None:
        self.columns = math.ceil(math.sqrt(len(images)))
        for self.side in TILES:
            lines = math.ceil(len(images) / self.columns)
            whole = Image.new("RGB", (self.columns * self.side, lines * self.side))
            for place, image in enumerate(images):
                whole.paste(image.resize((self.side, self.side), Image.Resampling.BICUBIC), self._corner(place))
            file = io.BytesIO()
            whole.save(file, "WEBP", quality=QUALITY, method=6)
            if file.tell() <= MOST_BYTES:
                break
        coded = base64.b64encode(file.getvalue()).decode()
        self.defined = (
            f'<defs><image id="i" width="{whole.width}" height="{whole.height}" '
            f'href="data:image/webp;base64,{coded}"/></defs>'
        )

    def _corner(self, place: int) -> tuple[int, int]:
        return place % self.columns * self.side, place // self.columns * self.side

    def at(self, place: int, x: int, y: int, width: int) -> str:
        """SVG of one image with its upper left corner at x and y."""
        left, top = self._corner(place)
        box = f"{left} {top} {self.side} {self.side}"
        return f'<svg x="{x}" y="{y}" width="{width}" height="{width}" viewBox="{box}"><use href="#i"/></svg>'


def _dots(places: list[tuple[float, float]], labels: list[int], classes: tuple[str, ...], tiles: _Tiles) -> str:
    """The map of images with classes."""
    legend = list(enumerate(classes)) if len(classes) <= len(COLOURS) else []
    colour = {label: _colour(label, len(classes)) for label in sorted(set(labels))}
    fading = "".join(f"svg:has(.p{label}:hover) .d:not(.d{label})," for label in colour).removesuffix(",")
    height = HEIGHT + LINE * math.ceil(len(legend) / 2)
    parts = [
        *_opened(WIDTH, height, "A map of the embeddings, coloured by class", f"{fading}{{opacity:.12}}"),
        tiles.defined,
    ]
    for label, shade in colour.items():
        path = "".join(f"M{x:.0f} {y:.0f}h0" for (x, y), other in zip(places, labels, strict=True) if other == label)
        parts.append(f'<path class="d d{label}" stroke="{shade}" d="{path}"/>')
    for place, name in legend:
        x, y = EDGE + place % 2 * WIDTH // 2, HEIGHT + LINE * (place // 2)
        parts.append(f'<path class="d" stroke="{COLOURS[place]}" d="M{x} {y}h0"/><text x="{x + 9}" y="{y + 4}">')
        parts.append(f"{escape(short_name(name))}</text>")
    for place, ((x, y), label) in enumerate(zip(places, labels, strict=True)):
        left, top = _beside(x, WIDTH, ENLARGED), _beside(y, HEIGHT, ENLARGED + LINE)
        parts.append(
            f'<g class="p p{label}"><circle class="h" cx="{x:.0f}" cy="{y:.0f}" r="8"/><g class="t">'
            f'<circle class="r" cx="{x:.0f}" cy="{y:.0f}" r="6"/>{_framed(left, top, colour[label], ENLARGED + LINE)}'
            f'{tiles.at(place, left, top, ENLARGED)}<text x="{left + 4}" y="{top + ENLARGED + 13}">'
            f"{escape(classes[label][:18])}</text></g></g>"
        )
    return "\n".join([*parts, "</svg>\n"])


def _grid(cells: Int64[Tensor, "n 2"], tiles: _Tiles) -> str:
    """The map of images without classes."""
    places = [(column * CELL, line * CELL) for column, line in cells.tolist()]
    width, height = (max(max(coordinates) + CELL, ENLARGED) for coordinates in zip(*places, strict=True))
    parts = [*_opened(width, height, "A map of the embeddings"), tiles.defined]
    parts += [tiles.at(place, x, y, CELL) for place, (x, y) in enumerate(places)]
    for place, (x, y) in enumerate(places):
        left, top = (_beside(at + CELL / 2, whole, ENLARGED) for at, whole in ((x, width), (y, height)))
        parts.append(
            f'<g class="p"><rect class="h" x="{x}" y="{y}" width="{CELL}" height="{CELL}"/><g class="t">'
            f"{_framed(left, top, 'var(--ink)', ENLARGED)}{tiles.at(place, left, top, ENLARGED)}</g></g>"
        )
    return "\n".join([*parts, "</svg>\n"])


def on_grid(places: Float[Tensor, "n 2"]) -> Int64[Tensor, "n 2"]:
    """Assigns each place its own cell (column, line): the nearest free one, in order from the middle.

    The grid has about twice as many cells as there are places. Before, each coordinate is averaged with its rank along
    the axis: this spreads dense regions and keeps large distances.
    """
    count = len(places)
    side = max(math.ceil(math.sqrt(2 * count)), 1)
    span = (places.max(dim=0).values - places.min(dim=0).values).clamp(min=1e-12)
    by_distance = (places - places.min(dim=0).values) / span
    by_rank = places.argsort(dim=0, stable=True).argsort(dim=0).double() / max(count - 1, 1)
    targets = (by_distance + by_rank) / 2 * (side - 1)
    cells = torch.cartesian_prod(torch.arange(side), torch.arange(side))
    free = torch.ones(len(cells), dtype=torch.bool)
    assigned = torch.zeros(count, 2, dtype=torch.int64)
    for place in (targets - targets.mean(dim=0)).norm(dim=1).argsort(stable=True).tolist():
        distance = (cells - targets[place]).square().sum(dim=1).masked_fill(~free, torch.inf)
        cell = int(distance.argmin())
        assigned[place], free[cell] = cells[cell], False
    return assigned - assigned.min(dim=0).values


def _opened(width: int, height: int, title: str, style: str = "") -> list[str]:
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-labelledby="t">',
        f'<title id="t">{title}</title>',
        "<style>:root{background:var(--ground)}svg{--ground:#fdfdfb;--ink:#1b1d20}@media(prefers-color-scheme:dark){svg{--ground:#16181b;--ink:#e4e4df}}",
        "text{font:12px system-ui,-apple-system,'Segoe UI',Roboto,'Noto Sans',sans-serif;fill:var(--ink)}",
        ".d{fill:none;stroke-width:8;stroke-linecap:round}.h{fill:none;pointer-events:all}",
        ".r{fill:none;stroke:var(--ink);stroke-width:1.5}.f{fill:var(--ground);stroke-width:2}",
        f".t{{display:none;pointer-events:none}}.p:hover .t{{display:inline}}{style}</style>",
    ]


def _framed(left: int, top: int, colour: str, height: int) -> str:
    size = f'width="{ENLARGED + 2}" height="{height + 2}"'
    return f'<rect class="f" x="{left - 1}" y="{top - 1}" {size} stroke="{colour}"/>'


def _beside(at: float, whole: int, length: int) -> int:
    """Start of a stretch of this length beside a place and inside the map."""
    return round(at + EDGE if at + EDGE + length < whole else max(at - EDGE - length, 1))


def _spread(plane: Float[Tensor, "n 2"]) -> list[tuple[float, float]]:
    """Scales places to the frame of the map, with one scale for both axes. A plane higher than wide is turned."""
    span = plane.max(dim=0).values - plane.min(dim=0).values
    turned = plane.flip(1) if span[1] > span[0] else plane
    span, middle = (
        turned.max(dim=0).values - turned.min(dim=0).values,
        (turned.max(dim=0).values + turned.min(dim=0).values) / 2,
    )
    frame = torch.tensor([WIDTH - 2.0 * EDGE, HEIGHT - 2.0 * EDGE], dtype=plane.dtype)
    scale = (frame / span.clamp(min=1e-12)).min()
    return [tuple(place) for place in ((turned - middle) * scale + frame / 2 + EDGE).tolist()]


def _colour(label: int, count: int) -> str:
    """Colour of a class: one of ten, or with more classes a hue."""
    return COLOURS[label] if count <= len(COLOURS) else f"hsl({360 * label // count} 65% 52%)"
