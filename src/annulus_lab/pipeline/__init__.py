"""Surroundings of a stage: arguments and results, provenance, staleness, variants, MLflow. They change no number."""

from annulus.errors import require

# A stage does not need DVC, which may have started it. A child process loads MLflow.
require(__name__, None, ["pydantic", "tqdm", "yaml"])
