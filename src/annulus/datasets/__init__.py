"""Image sets and their preparation; only the stage `prepare` imports this."""
