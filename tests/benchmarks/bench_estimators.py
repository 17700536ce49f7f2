"""The toys: runs trained together against one at a time, and the time of 200 updates of CPC and of ML-CPC.

The targets are at least 3 times, and at most 1.05 (issue 4; mlcpc 5.1 prints 1.14 s beside 1.15 s).
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

import torch
import yaml
from timing import medians, write

from annulus.config.estimators import ConditionalParams
from annulus.device import pick_device
from annulus.estimators.conditional import Conditional, Run
from annulus.estimators.critics import Joint, Separable
from annulus.estimators.fitting import seeded
from annulus.estimators.toys import CorrelatedGaussians, SumOfGaussians
from annulus.estimators.values import CPC, MLCPC, Bound, off_diagonal

STEPS, SEEDS, REPETITIONS = 10, 5, 5  # steps of the conditional study at its paper's setting
UPDATES, PAIRS, TURNS = 200, 128, 11  # mlcpc 5.1


def main() -> None:
    device = pick_device()
    study = yaml.safe_load((Path(__file__).resolve().parents[2] / "stages/estimators/params.yaml").read_text())
    params = ConditionalParams.model_validate(study["conditional"])
    runs = [Run(percent, seed) for percent in params.percents for seed in range(SEEDS)]
    together = Conditional(SumOfGaussians(), runs, params, "dot")
    alone = [Conditional(SumOfGaussians(), [run], params, "dot") for run in runs]
    seconds = medians(
        {"together": lambda: steps(together), "alone": lambda: [steps(each) for each in alone]}, REPETITIONS
    )
    critics = {
        "separable": seeded(lambda: Separable(20, 256, 2, 32), 0).to(device),
        "joint": seeded(lambda: Joint(20, 256, 2), 0).to(device),
    }
    updates = medians(
        {
            bound.name: lambda bound=bound: update(critics["separable"], bound, UPDATES)
            for bound in (CPC(1.0), MLCPC(1.0))
        },
        TURNS,
    )
    few = 4  # the joint critic takes a fifth of a second for one on two cores
    joint = medians(
        {bound.name: lambda bound=bound: update(critics["joint"], bound, few) for bound in (CPC(1.0), MLCPC(1.0))},
        TURNS,
    )
    cpc, mlcpc = updates.values()
    joint_cpc, joint_mlcpc = joint.values()
    write(
        "estimators",
        {
            "vmap_times_loop": round(seconds["alone"] / seconds["together"], 2),
            "runs_together": len(runs),
            "milliseconds_per_step_together": round(1e3 * seconds["together"] / STEPS, 1),
            "cpc_200_updates_seconds": round(cpc, 2),
            "mlcpc_200_updates_seconds": round(mlcpc, 2),
            "mlcpc_over_cpc": round(mlcpc / cpc, 3),
            "joint_mlcpc_over_cpc": round(joint_mlcpc / joint_cpc, 3),
            "joint_cpc_seconds_per_update": round(joint_cpc / few, 3),
            "pairs": PAIRS,
        },
        device,
    )


def steps(conditional: Conditional) -> None:
    count, size = len(conditional.runs), conditional.params.batch_size
    index = torch.arange(size).expand(count, -1)
    for _ in range(STEPS):
        conditional.step(index)


def update(critic: torch.nn.Module, bound: Bound, count: int) -> None:
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
