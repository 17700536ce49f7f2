"""Checkpoints, provenance, MLflow: what surrounds a stage and changes no number."""
