"""Image sets, generated, of files or downloaded, and their preparation as packed files."""
