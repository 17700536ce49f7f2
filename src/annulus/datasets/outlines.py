"""The five outlines of `shapes`: functions from a point to its depth inside the outline. Integers only.

A point (u, v) and a depth are in 1/4096 of the outline's unit. Depth is positive inside and 0 on the edge. Near the
edge it grows by one unit per unit of distance (a little less on curves), as antialiasing needs. Each outline has its
centroid near the origin, and `SPAN` gives all of them the same area. So neither the covered share of the picture nor
the object's centre of mass identifies the class.
"""

from collections.abc import Callable

import numpy as np

ONE = 4096

Plane = np.ndarray  # int32, any shape; |values| at most 4 * ONE, so that squares and products stay below 2**31
Outline = Callable[[Plane, Plane], Plane]


def _units(x: float) -> int:
    return round(x * ONE)


def _within(distance: Plane, limit: float) -> Plane:
    return _units(limit) - distance


def _edge(u: Plane, v: Plane, normal: tuple[int, int], offset: float) -> Plane:
    """Depth behind a straight edge at `offset` from the origin; the normal is in 1/256."""
    return _units(offset) - ((normal[0] * u + normal[1] * v) >> 8)


def _both(*depths: Plane) -> Plane:
    return np.minimum.reduce(depths)


def _round(u: Plane, v: Plane, radius: float) -> Plane:
    """(r^2 - |p|^2) / 2r: the distance to the edge to first order, without a square root."""
    r = _units(radius)
    return (r * r - u * u - v * v) // (2 * r)


def disc(u: Plane, v: Plane) -> Plane:
    return _round(u, v, 1.0)


def triangle(u: Plane, v: Plane) -> Plane:
    return _both(*(_edge(u, v, normal, 0.5) for normal in ((0, -256), (222, 128), (-222, 128))))


def star(u: Plane, v: Plane) -> Plane:
    """Pentagram: the points behind at least four of five lines, so the depth is the second smallest one."""
    normals = ((0, -256), (243, -79), (150, 207), (-150, 207), (-243, -79))
    smallest = second = np.full_like(u, 8 * ONE)
    for normal in normals:
        depth = _edge(u, v, normal, 0.36)
        second = np.minimum(second, np.maximum(smallest, depth))
        smallest = np.minimum(smallest, depth)
    return second


def ring(u: Plane, v: Plane) -> Plane:
    return _both(_round(u, v, 1.0), -_round(u, v, 0.55))


def cross(u: Plane, v: Plane) -> Plane:
    u, v = abs(u), abs(v)
    return _both(_within(np.maximum(u, v), 1.0), _within(np.minimum(u, v), 0.34))


OUTLINES: dict[str, Outline] = {outline.__name__: outline for outline in (disc, triangle, star, ring, cross)}

# Scale of each outline for an area of 2 square units; a test measures it.
SPAN = {
    "disc": 0.798,
    "triangle": 1.242,
    "star": 1.144,
    "ring": 0.956,
    "cross": 0.941,
}
