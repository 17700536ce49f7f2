"""The documentation site, from the repository's Markdown, docstrings, metrics and notebooks; `make docs` builds it.

pages          MkDocs' hooks: all pages, and the programs in them
papers         a page for each paper: settings, claims, tables
reference      a page for each public module
doctests       examples of its docstrings as blocks of code
"""

from annulus.errors import require

require(__name__, None, ["mkdocs", "material", "mkdocstrings", "mkdocs_jupyter", "mdx_truly_sane_lists"])
