"""Whether this machine has a C compiler that annulus uses."""

import os
import shutil
import sys

import pytest

used = sys.platform != "win32" and shutil.which(os.environ.get("CC") or "cc") is not None
needs_compiler = pytest.mark.skipif(not used, reason="no C compiler")
