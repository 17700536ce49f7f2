"""Whether this machine has a C compiler."""

import os
import shutil

import pytest

needs_compiler = pytest.mark.skipif(shutil.which(os.environ.get("CC") or "cc") is None, reason="no C compiler")
