"""Where images come from, for `prepare` alone."""
