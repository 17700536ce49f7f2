"""What stands around a stage and enters no number."""

from annulus.extras import require

require(__name__, "pipeline", ["dvc", "mlflow", "pydantic", "tqdm", "yaml"])
