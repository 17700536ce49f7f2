"""One page with the papers' numbers beside those measured here; `make report` writes it.

In the order in which it is put together:

    metrics        the files under metrics/, read strictly
    published      the papers' own tables and figures (results.yaml)
    papers         their tables with ours beside them (measured.yaml: where ours are)
    claims         what the papers claim, each with its rule and its verdict; how to add one
    context        what was run, and where
    compact        their SVG in fewer bytes
    drawing        how figures look
    figures        rows of metrics files to figures
    views          the same, of studies of what views share
    gains          the comparison figure: gains over a base, with intervals
    plots          every figure's files, title and finding
    pictures       images with their neighbours and negatives
    tables         tables before they are HTML or Markdown
    seeds          tables of several seeds, with intervals
    shown          a part from its files, or why it is empty
    first          the first screen: what the main line gains over uniform negatives
    numbers        a claim's numbers and its rule in words
    content        every section, gathered from what exists
    page           one HTML file that asks for nothing else
    markdown       the same for a pull request
    readme         tables of metrics/README.md
"""

from annulus.extras import require

require(__name__, "report", ["jinja2", "markupsafe", "matplotlib", "pydantic", "yaml"])
