"""The documentation site, from the repository's Markdown, docstrings, metrics and notebooks; `make docs` builds it.

sections       Markdown files cut at their headings; pages put together of them, with every link led to its page
papers         a page for each paper: settings, claims, tables
reference      a page for each public module
doctests       examples of its docstrings as blocks of code
notebooks      notebooks, run, as Markdown
build          all pages as a folder, and MkDocs over it
"""

from annulus.errors import require

require(__name__, "docs", ["mkdocs", "material", "mkdocstrings", "nbclient", "nbconvert"])
