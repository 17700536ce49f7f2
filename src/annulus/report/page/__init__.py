"""The report itself, as a page and as Markdown.

context        what was run, and where
seeds          tables of several seeds, with intervals
shown          a part from its files, or why it is empty
sheets         generated images
first          the first screen: what the main line gains over uniform negatives
points         tables of a study's part
further        parts of studies that stand nowhere else
numbers        a claim's numbers and its rule in words
content        every section, gathered from what exists
html           one HTML file that asks for nothing else (page.html, page.css, page.js)
markdown       the same for a pull request
"""
