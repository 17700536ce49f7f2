"""One page with the papers' numbers beside those measured here; `make report` writes it.

The rooms, in the order in which the page is put together:

    papers         the papers' numbers, those measured here, and tables of both
    claims         the papers' claims, each with its rule and its verdict
    presets        rows of the papers' tables as commands, and their hours
    figures        figures and pictures
    page           every section, as HTML and as Markdown

Where to find or add a thing:

    a claim of a paper           claims/PAPER.py, such as claims/ring.py; claims/__init__.py says how to add one
    a claim's verdict            claims/verdicts.py
    a table of a paper           published.yaml of papers: its printed numbers; measured.yaml there: the file with ours
    a row as a command           tables.yaml of presets
    an algorithm's name          algorithms.py of papers: in words
    a figure                     figures/catalogue.py: its files, title and finding, and the function that draws it
    a study's sheet of pictures  page/sheets.py
    a section of the page        page/__init__.py: its file, from the top of the page to its end
    numbers of README, of metrics/RESULTS.md and of the studies' pages    readme_numbers.py
    figures of README            readme_figures.py
    the list of public names     public_page.py
"""

from annulus.errors import require

require(__name__, None, ["jinja2", "markupsafe", "matplotlib", "pydantic", "yaml"])
