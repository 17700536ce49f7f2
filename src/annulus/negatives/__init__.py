"""Negative sampling, neighbour selection, and how both begin: annealing."""

from annulus.negatives.annealing import (
    AdaptiveEpochAnnealing,
    AdaptiveStepAnnealing,
    ConstantAnnealing,
    LinearAnnealing,
    StepAnnealing,
)
from annulus.negatives.by_cluster import cave
from annulus.negatives.by_rank import ball, ring, uniform
from annulus.negatives.by_weight import draw_weighted
from annulus.negatives.clusters import Clusters
from annulus.negatives.draws import fractions
from annulus.negatives.neighbours import CloseNeighbours, ClusterNeighbours
from annulus.negatives.samplers import Ball, Cave, Ring, Sampler, Uniform
from annulus.negatives.selection import Selection

__all__ = [
    "AdaptiveEpochAnnealing",
    "AdaptiveStepAnnealing",
    "Ball",
    "Cave",
    "CloseNeighbours",
    "ClusterNeighbours",
    "Clusters",
    "ConstantAnnealing",
    "LinearAnnealing",
    "Ring",
    "Sampler",
    "Selection",
    "StepAnnealing",
    "Uniform",
    "ball",
    "cave",
    "draw_weighted",
    "fractions",
    "ring",
    "uniform",
]

SAMPLERS = {  # by their keys in params.yaml
    "uniform": Uniform,
    "ball": Ball,
    "ring": Ring,
    "cave": Cave,
}
