"""Steps with compiled networks beside the same steps without, in a process of its own.

That process checks no signatures while tests run, since torch would compile the checks too.
"""

import functools
import json
import os
import subprocess
import sys
from collections import Counter

import warm
from by_path import ROOT

STEPS = 3


def compare_steps(method: str, device: str, mode: str) -> dict:
    """Losses and state after some steps, plain and with ANNULUS_COMPILE, and the graphs and graph breaks of compiling.

    On a CPU torch runs the captured graphs, since machine code for them takes a minute to make. The result also counts
    the graphs' calls of each operator.
    """
    python, backend = (warm.folder() / "python", "aot_eager") if device == "cpu" else (sys.executable, "inductor")
    folders = [*(str(ROOT / room) for room in ("src", "tests", "stages")), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, folders))}
    command = [python, __file__, method, device, mode, backend]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def main(method: str, device: str, mode: str, backend: str) -> None:
    import torch
    import torch._dynamo
    from gpu_cases import settings_of, start_training
    from settings import observer

    from annulus.training.measurement import Measurement

    operators = Counter()

    def capture(graph, inputs):
        operators.update(str(node.target) for node in graph.graph.nodes)
        return torch._dynamo.lookup_backend(backend)(graph, inputs)

    torch.compile = functools.partial(torch.compile, backend=backend if backend == "inductor" else capture)
    numbers = {}
    for way in ("no", mode):
        os.environ["ANNULUS_COMPILE"] = way
        changes = settings_of({"method": method, "backbone": "convnet", "negatives": "all"})
        run, order = start_training(changes, torch.device(device))
        run.batch = 0
        for _ in range(STEPS):
            run.step(order)
        state = [each.detach().flatten().double() for each in run.method.state_dict().values() if torch.is_tensor(each)]
        losses = observer(run, Measurement).losses[:STEPS].tolist()
        numbers[way] = {"losses": losses, "state": torch.cat(state).tolist()}
    counters = torch._dynamo.utils.counters
    compilation = {
        "graphs": counters["stats"]["unique_graphs"],
        "breaks": dict(counters["graph_break"]),
        "operators": operators,
    }
    print(json.dumps({"plain": numbers["no"], "compiled": numbers[mode]} | compilation))


if __name__ == "__main__":
    main(*sys.argv[1:])
