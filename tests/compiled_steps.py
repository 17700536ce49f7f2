"""Steps with compiled networks beside the same steps without, in a process of its own.

There no signature is checked while tests run: the checks would be compiled too.
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


def found(method: str, device: str, asked: str) -> dict:
    """Losses and state after some steps, plain and as ANNULUS_COMPILE asks; of compiling, graphs and their breaks.

    On a CPU torch runs the graphs as it captured them, for making machine code of them takes a minute, and how many
    times they call each operator is told too.
    """
    python, backend = (warm.folder() / "python", "aot_eager") if device == "cpu" else (sys.executable, "inductor")
    folders = [*(str(ROOT / room) for room in ("src", "tests", "stages")), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, folders))}
    command = [python, __file__, method, device, asked, backend]
    said = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert said.returncode == 0, said.stderr[-3000:]
    return json.loads(said.stdout.splitlines()[-1])


def main(method: str, device: str, asked: str, backend: str) -> None:
    import torch
    import torch._dynamo
    from gpu_cases import begun, settings_of
    from settings import observer

    from annulus.training.measurement import Measurement

    operators = Counter()

    def captured(graph, inputs):
        operators.update(str(node.target) for node in graph.graph.nodes)
        return torch._dynamo.lookup_backend(backend)(graph, inputs)

    torch.compile = functools.partial(torch.compile, backend=backend if backend == "inductor" else captured)
    numbers = {}
    for way in ("no", asked):
        os.environ["ANNULUS_COMPILE"] = way
        changes = settings_of({"method": method, "backbone": "convnet", "negatives": "all"})
        run, order = begun(changes, torch.device(device))
        run.batch = 0
        for _ in range(STEPS):
            run.step(order)
        state = [each.detach().flatten().double() for each in run.method.state_dict().values() if torch.is_tensor(each)]
        losses = observer(run, Measurement).losses[:STEPS].tolist()
        numbers[way] = {"losses": losses, "state": torch.cat(state).tolist()}
    counters = torch._dynamo.utils.counters
    told = {
        "graphs": counters["stats"]["unique_graphs"],
        "breaks": dict(counters["graph_break"]),
        "operators": operators,
    }
    print(json.dumps({"plain": numbers["no"], "compiled": numbers[asked]} | told))


if __name__ == "__main__":
    main(*sys.argv[1:])
