"""From sections of params.yaml to samplers, neighbours and annealing; nothing else in this room reads a section."""

from annulus.config.negatives import (
    AdaptiveEpochAnneal,
    AdaptiveStepAnneal,
    AnnealParams,
    BallParams,
    CaveParams,
    CloseNeighbourParams,
    ClusterNeighbourParams,
    ConstantAnneal,
    LinearAnneal,
    NeighbourParams,
    NoNeighbourParams,
    RingParams,
    SamplerParams,
    StepAnneal,
    UniformParams,
)
from annulus.negatives.annealing import AdaptiveAnnealing, Annealing, LinearAnnealing, StepAnnealing
from annulus.negatives.clusters import Clustering
from annulus.negatives.neighbours import CloseNeighbours, ClusterNeighbours, Neighbours
from annulus.negatives.samplers import Cave, Ring, Sampler


def build_sampler(params: SamplerParams) -> Sampler:
    """The sampler of these settings."""
    match params:
        case UniformParams() | BallParams() | RingParams():
            return Ring(*params.shares)
        case CaveParams(outer=outer, keep=keep):
            return Cave(outer, keep, _clustering(params))
        case _:
            raise TypeError(f"no sampler is known for {type(params).__name__}")


def build_neighbours(params: NeighbourParams) -> Neighbours | None:
    """The neighbours of these settings; None: a query has one positive."""
    match params:
        case NoNeighbourParams():
            return None
        case CloseNeighbourParams(share=share, start=start, until=until, in_denominator=in_denominator):
            return CloseNeighbours(share, start, until, in_denominator)
        case ClusterNeighbourParams(start=start, in_denominator=in_denominator):
            return ClusterNeighbours(_clustering(params), start, in_denominator)
        case _:
            raise TypeError(f"no neighbours are known for {type(params).__name__}")


def build_annealing(params: AnnealParams) -> Annealing:
    """The annealing policy of these settings, at its start."""
    match params:
        case ConstantAnneal():
            return Annealing()
        case LinearAnneal(until=until):
            return LinearAnnealing(until)
        case StepAnneal(until=until, steps=steps):
            return StepAnnealing(until, steps)
        case AdaptiveEpochAnneal(delta=delta, window=window):
            return AdaptiveAnnealing(delta, window, "accuracy")
        case AdaptiveStepAnneal(delta=delta, window=window):
            return AdaptiveAnnealing(delta, window, "loss")
        case _:
            raise TypeError(f"no annealing policy is known for {type(params).__name__}")


def _clustering(params: CaveParams | ClusterNeighbourParams) -> Clustering:
    return Clustering(params.clusters, params.iterations, params.runs)
