"""Negative sampling and neighbour selection."""

from annulus.negatives.clusters import Clusters
from annulus.negatives.samplers import Ball, Cave, Ring, Uniform, ball, cave, ring, uniform
from annulus.negatives.selection import Selection

__all__ = ["Ball", "Cave", "Clusters", "Ring", "Selection", "Uniform", "ball", "cave", "ring", "uniform"]
