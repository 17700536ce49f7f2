"""Negative samplers, neighbours as further positives, and annealing."""

from annulus.negatives.annealing import (
    AdaptiveEpochAnnealing,
    AdaptiveStepAnnealing,
    ConstantAnnealing,
    CosineTemperature,
    LinearAnnealing,
    StepAnnealing,
)
from annulus.negatives.by_cluster import cave
from annulus.negatives.by_rank import ball, ring, uniform
from annulus.negatives.by_weight import draw_weighted
from annulus.negatives.clusters import Clusters
from annulus.negatives.mochi import MoCHi
from annulus.negatives.neighbours import ClassNeighbours, CloseNeighbours, ClusterNeighbours, NearestRow
from annulus.negatives.other_class import OtherClass
from annulus.negatives.random_numbers import fractions
from annulus.negatives.samplers import Ball, Cave, Ring, Sampler, Uniform
from annulus.negatives.selection import Selection

__all__ = [
    "AdaptiveEpochAnnealing",
    "AdaptiveStepAnnealing",
    "Ball",
    "Cave",
    "ClassNeighbours",
    "CloseNeighbours",
    "ClusterNeighbours",
    "Clusters",
    "ConstantAnnealing",
    "CosineTemperature",
    "LinearAnnealing",
    "MoCHi",
    "NearestRow",
    "OtherClass",
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
    "other-class": OtherClass,
    "mochi": MoCHi,
}
