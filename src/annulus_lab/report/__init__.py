"""One page with the papers' numbers beside the numbers measured here; `make report` writes it.

The rooms, in the order of the page's assembly:

    papers         the papers' numbers, the numbers measured here, and tables of both
    claims         the papers' claims, each with its rule and its verdict
    presets        rows of the papers' tables as commands, and their hours
    figures        figures and pictures
    page           every section, as HTML and as Markdown

The place of each thing, to find or add it:

    a claim of a paper           claims/PAPER.py, such as claims/ring.py; claims/__init__.py has the steps to add one
    a claim's verdict            claims/verdicts.py
    a table of a paper           published.yaml of papers: its printed numbers; measured.yaml there: the file with ours
    a row as a command           tables.yaml of presets
    an algorithm's name          algorithms.py of papers: in words
    a figure                     figures/catalogue.py: its files, title, finding and drawing function
    a study's sheet of pictures  page/sheets.py
    a section of the page        page/__init__.py: its file, from the top of the page to its end
    numbers in README, metrics/RESULTS.md and the studies' pages    readme_numbers.py
    figures of README            readme_figures.py
    the list of public names     public_page.py
"""

from annulus.errors import require

require(__name__, None, ["jinja2", "markupsafe", "matplotlib", "pydantic", "yaml"])
