"""Put this checkout's `src` first: an experiment that DVC runs in another folder must use its own code.

And let MLflow load in a child while the stage loads what it needs.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

from annulus.pipeline import tracking

tracking.prepare()
