"""Kernels in Triton, interpreted on the CPU.

    found = interpreted("annulus.negatives.bisection:select", [(scores, own, 0, 5, None), ...])

A process of its own interprets: Triton decides at its import whether it does. At each call of a device function, a sum
among them, Triton would make its language the interpreter's again, which is half of all time; here once for each file.
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
    """What a function of the library that starts kernels returns for each of these arguments, tensors and numbers."""
    environment = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT / "src")}
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder) / "given.pt", Path(folder) / "found.pt"
        torch.save(calls, given)
        subprocess.run([sys.executable, __file__, function, given, found], env=environment, check=True)
        return torch.load(found)


def patched_once():
    """Device functions find the language patched: by the kernel's start, or by the first call to their file."""
    from triton.runtime import interpreter

    known = set()

    def call(self, *arguments, **named):
        if self.fn.__module__ not in known:
            known.add(self.fn.__module__)
            interpreter._patch_lang(self.fn)
        return self.rewrite()(*arguments, **named)

    interpreter.InterpretedFunction.__call__ = call


if __name__ == "__main__":
    patched_once()
    module, _, name = sys.argv[1].partition(":")
    called = getattr(importlib.import_module(module), name)
    torch.save([called(*call) for call in torch.load(sys.argv[2], weights_only=False)], sys.argv[3])
