"""The training loop and its setup."""
