"""Tests of compiled C: whether this machine has a compiler, and flags by which it takes a tenth of the time."""

import os
import shutil
import sys

import pytest

from annulus.device import c_library

used = sys.platform != "win32" and shutil.which(os.environ.get("CC") or "cc") is not None
needs_compiler = pytest.mark.skipif(not used, reason="no C compiler")

UNOPTIMISED = ["-O0", *c_library.FLAGS[1:]]  # for a test that compiles many
