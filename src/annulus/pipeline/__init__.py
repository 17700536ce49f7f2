"""Checkpoints, provenance, staleness, MLflow: what surrounds a stage and changes no number."""

from annulus.extras import require

# A stage needs neither DVC, which may have started it, nor MLflow, which a child loads.
require(__name__, "pipeline", ["pydantic", "tqdm", "yaml"])
