"""Checkpoints, provenance, staleness, MLflow: what surrounds a stage and changes no number."""

from annulus.extras import require

require(__name__, "pipeline", ["dvc", "mlflow", "pydantic", "tqdm", "yaml"])
