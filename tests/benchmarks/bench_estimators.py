"""The toys: runs trained together against one at a time, and the time of 200 updates of CPC and of ML-CPC.

Targets: runs trained together are at least 3 times as fast; ML-CPC takes at most 1.05 times CPC's time. mlcpc Section
5.1 prints 1.14 s beside 1.15 s.
"""

import statistics
import time
from functools import partial

import torch
import yaml
from timing import ROOT, medians, write

from annulus.bounds.infonce import infonce
from annulus.device.device import pick_device
from annulus.device.rng import first_weights
from annulus.negatives.by_rank import ball
from annulus.running.workers import map_processes
from annulus_lab.config.params import filled
from annulus_lab.studies.estimators.bounds import Estimator, cpc, mlcpc, off_diagonal
from annulus_lab.studies.estimators.conditional import Conditional, CriticRun
from annulus_lab.studies.estimators.critics import Joint, Separable
from annulus_lab.studies.estimators.estimators_params import ConditionalParams
from annulus_lab.studies.estimators.toys import CorrelatedGaussians, SumOfGaussians

SEEDS, TURNS = 5, 5  # of one epoch of the conditional study at its paper's setting
THREADS = torch.get_num_threads()
UPDATES, PAIRS, UPDATE_TURNS = 200, 128, 41  # mlcpc 5.1
JOINT_UPDATES, JOINT_TURNS = 4, 11  # a joint critic takes a twentieth of a second for one on two cores

STUDY = yaml.safe_load((ROOT / "stages/estimators/params.yaml").read_text())
PARAMS = filled(ConditionalParams, STUDY["conditional"] | {"epochs": 1})
VARIANTS = ["cosine", "cosine-slow"]
RUNS = [CriticRun(percent, seed) for percent in PARAMS.percents for seed in range(SEEDS)]


def main() -> None:
    together, one_core, alone = conditional()
    device = pick_device()
    with first_weights(0):
        separable = Separable(20, 256, 2, 32)
    with first_weights(0):
        joint = Joint(20, 256, 2)
    (separable_cpc, separable_mlcpc), (joint_cpc, joint_mlcpc) = (
        medians(
            {it.name: partial(update, critic.to(device), it, count) for it in (cpc(1.0), mlcpc(1.0))}, turns
        ).values()
        for critic, count, turns in ((separable, UPDATES, UPDATE_TURNS), (joint, JOINT_UPDATES, JOINT_TURNS))
    )
    write(
        "estimators",
        device,
        together_times_one_at_a_time=alone / together,
        together_times_one_at_a_time_on_one_core=alone / one_core,
        runs_together=len(RUNS) * len(VARIANTS),
        together_epoch_seconds=together,
        cpc_200_updates_seconds=separable_cpc,
        mlcpc_200_updates_seconds=separable_mlcpc,
        mlcpc_over_cpc=separable_mlcpc / separable_cpc,
        joint_mlcpc_over_cpc=joint_mlcpc / joint_cpc,
        joint_cpc_seconds_per_update=joint_cpc / JOINT_UPDATES,
        pairs=PAIRS,
    )


def conditional() -> tuple[float, float, float]:
    """Seconds of an epoch of all runs in three ways.

    The first stacks the runs of a variant, as the study does, on a core for each variant. The second trains the stacks
    one after the other on one core. The third trains one run at a time with all of torch's threads. Each way runs in
    a forked process, in turns: a fork would lose threads that this process has started.
    """
    stacks, cores, loops = [], [], []
    for _ in range(TURNS):
        stacks.append(max(map_processes(stacked, VARIANTS)))
        cores.append(sum(next(map_processes(stacked, [name])) for name in VARIANTS))
        loops.append(sum(next(map_processes(one_at_a_time, [name])) for name in VARIANTS))
    return statistics.median(stacks), statistics.median(cores), statistics.median(loops)


def stacked(name: str) -> float:
    study = Conditional(SumOfGaussians(), RUNS, PARAMS, PARAMS.variants[name])
    study.step(torch.arange(PARAMS.batch_size).expand(len(RUNS), -1), [run.percent for run in RUNS])
    started = time.perf_counter()
    study.train()
    return time.perf_counter() - started


def one_at_a_time(name: str) -> float:
    torch.set_num_threads(THREADS)
    loop(RUNS[0], name, 1)
    return sum(loop(run, name, PARAMS.points // PARAMS.batch_size) for run in RUNS)


def loop(run: CriticRun, name: str, steps: int) -> float:
    """Seconds of one run as a user would write it: a module, its optimiser, and the library's negatives and bound."""
    random = torch.Generator().manual_seed(run.seed)
    x, y = SumOfGaussians().sample(PARAMS.points, random)
    temperature = PARAMS.temperature if name == "cosine" else None
    critic = Separable(x.shape[1], PARAMS.hidden, PARAMS.layers, PARAMS.outputs, temperature)
    optimizer = torch.optim.Adam(critic.parameters(), PARAMS.variants[name].learning_rate)
    started = time.perf_counter()
    for index in torch.randperm(PARAMS.points, generator=random).split(PARAMS.batch_size)[:steps]:
        embedded_x, embedded_y = critic.embed_x(x[index]), critic.embed_y(y)
        scores = embedded_x @ embedded_y.T
        near = scores.detach() if name == "cosine" else -torch.cdist(embedded_x.detach(), embedded_y.detach())
        rows = ball(near, index, run.percent / 100, PARAMS.negatives, random).index
        loss = infonce(scores.gather(1, index[:, None]), scores.gather(1, rows))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return time.perf_counter() - started


def update(critic: torch.nn.Module, bound: Estimator, count: int) -> None:
    device = next(critic.parameters()).device
    toy, random = CorrelatedGaussians.with_information(20, 2.0), torch.Generator(device).manual_seed(0)
    optimizer = torch.optim.Adam(critic.parameters(), 1e-3, fused=True)
    for _ in range(count):
        scores = critic(*toy.sample(PAIRS, random))
        loss = -bound.estimate(scores.diagonal(), off_diagonal(scores))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
