"""Where images come from; only `prepare` uses it."""
