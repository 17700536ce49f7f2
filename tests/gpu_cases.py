"""Choices of a training for GPU tests, and trainings with them at a step in which everything happens."""

import itertools

from settings import read, stripes

from annulus.training.setup import build_training

CHOICES = {
    "method": ("ir", "pirl", "moco", "moco-jigsaw", "simclr", "simo"),
    "split": ("none", "lab"),
    "sampler": ("uniform", "ball", "ring", "cave"),
    "neighbours": ("none", "s", "k"),
    "bound": ("infonce", "cpc", "mlcpc", "la", "binary-nce"),
    "negatives": ("sampled", "all"),
    "views": ("strong", "none"),
}


def fits(case):
    return case["neighbours"] == "none" or case["bound"] not in ("mlcpc", "binary-nce")


def choice_pairs(case):
    return set(itertools.combinations(case.items(), 2))


def every_pair():
    """Yields few cases that cover each pair of choices that fits a case."""
    cases = [dict(zip(CHOICES, values, strict=True)) for values in itertools.product(*CHOICES.values())]
    cases = [case for case in cases if fits(case)]
    missing = set().union(*map(choice_pairs, cases))
    while missing:
        best = max(cases, key=lambda case: len(choice_pairs(case) & missing))
        missing -= choice_pairs(best)
        yield best


CASES = list(every_pair())


def settings_of(case):
    """Settings of a case, with clusters so large that each query of a small batch has members and others."""
    case = dict(case)
    negatives = {f"methods.{case['method']}.negatives": case.pop("negatives")} if "negatives" in case else {}
    large = {"samplers.cave.clusters": 4, "samplers.cave.outer": 1.0, "neighbour_sets.k.clusters": 4}
    return {"bounds.mlcpc.alpha_start": 2.0} | large | negatives | case


def start_training(changes, device):
    """A training in its third step of five, after neighbours begin, and its epoch's order."""
    training = build_training(read(changes), stripes(86, 0), stripes(10, 1), device)
    training.method.start(training._embed)
    training.method.before_epoch(0, training._embed)
    training.method.train()
    training.batch = 2
    return training, training.order()
