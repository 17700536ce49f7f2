"""Kernels in Triton, interpreted on the CPU.

    results = interpreted("annulus.negatives.bisection:select", [(scores, own, 0, 5, None), ...])

A process of its own interprets, since Triton selects the interpreter at its import. By default Triton patches its
language at each call of a device function, such as a sum; that takes half of the time. Here it does so once per file.
"""

import importlib
import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import torch
from by_path import ROOT

needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")


def interpreted(function, calls):
    """Returns the results of a library function that starts kernels, one for each tuple of tensors and numbers."""
    environment = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT / "src")}
    with tempfile.TemporaryDirectory() as folder:
        inputs, outputs = Path(folder) / "given.pt", Path(folder) / "found.pt"
        torch.save(calls, inputs)
        subprocess.run([sys.executable, __file__, function, inputs, outputs], env=environment, check=True)
        return torch.load(outputs)


def patch_once():
    """Patches Triton's language at a kernel's start, or at the first call of a device function of a file."""
    from triton.runtime import interpreter

    known = set()

    def call(self, *arguments, **named):
        if self.fn.__module__ not in known:
            known.add(self.fn.__module__)
            interpreter._patch_lang(self.fn)
        return self.rewrite()(*arguments, **named)

    interpreter.InterpretedFunction.__call__ = call


if __name__ == "__main__":
    patch_once()
    module, _, name = sys.argv[1].partition(":")
    function = getattr(importlib.import_module(module), name)
    torch.save([function(*call) for call in torch.load(sys.argv[2], weights_only=False)], sys.argv[3])
