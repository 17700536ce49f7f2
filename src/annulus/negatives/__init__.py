"""Which columns of a memory stand against the positive, and which with it."""

from annulus.negatives.clusters import Clusters
from annulus.negatives.samplers import Ring, ball, cave, ring, uniform

__all__ = ["Clusters", "Ring", "ball", "cave", "ring", "uniform"]
