"""One page with the papers' numbers beside those measured here; `make report` writes it.

In the order in which it is put together:

    papers         the papers' numbers, those under metrics/, and tables of both
    claims         what the papers claim, each with its rule and its verdict; how to add one
    figures        figures and pictures
    page           every section, gathered from what exists, as HTML and as Markdown
    front          two figures in README
    readme         tables of README and metrics/RESULTS.md
    public_page    the list of public names
"""

from annulus.errors import require

require(__name__, "report", ["jinja2", "markupsafe", "matplotlib", "pydantic", "yaml"])
