"""Surroundings of a stage, which change no number: arguments and results, provenance, staleness, variants, MLflow."""

from annulus.errors import require

# A stage needs neither DVC, which may have started it, nor MLflow, which a child loads.
require(__name__, "pipeline", ["pydantic", "tqdm", "yaml"])
