"""Selections by the Triton kernels, interpreted on the CPU: interpreted.py CASES FOUND, two files of torch.

A process of its own: Triton decides at its import whether it interprets.
"""

import os
import sys

os.environ["TRITON_INTERPRET"] = "1"

import torch

from annulus.negatives import radix

if __name__ == "__main__":
    cases = torch.load(sys.argv[1])
    torch.save([radix.select(*case) for case in cases], sys.argv[2])
