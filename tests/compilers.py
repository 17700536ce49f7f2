"""For tests of compiled C: a mark for machines with a compiler, and flags that compile in a tenth of the time."""

import os
import shutil
import sys

import pytest

from annulus.device import c_library

has_compiler = sys.platform != "win32" and shutil.which(os.environ.get("CC") or "cc") is not None
needs_compiler = pytest.mark.skipif(not has_compiler, reason="no C compiler")

UNOPTIMISED = ["-O0", *c_library.FLAGS[1:]]  # for a test that compiles many
