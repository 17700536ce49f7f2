"""The site's pages: MkDocs' hooks, which mkdocs.yml names.

Each Markdown file and notebook of `PAGES` is a page at its own path, so its links are the same as on GitHub. On the
site a program's text replaces a link to it below the comment `<!-- include -->`.
"""

import posixpath
import re
from fnmatch import filter as matching
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from annulus_lab.site import papers, reference

PAGES = ("README.md", "docs/**/*.md", "docs/**/*.ipynb", "data/README.md", "metrics/**/*.md", "stages/README.md")
PAGES += ("stages/*/README.md", "src/*/README.md", "src/annulus/PUBLIC.md")
INCLUDE = re.compile(r"^<!-- include -->\n\[(.*)\]\((.*)\)$", re.M)
LINK = re.compile(r"(?<=\]\()(?!\w+:)[^)#\s]+|(?<=<img src=\")[^\"]+")
NO_TEXT = "No description has been provided for this image"  # nbconvert's
# Code, which stays as it is, or a space within a number: no line may end there.
WITHIN = re.compile(r"(<(code|pre)\b.*?</\2>)| (?=± )|(?<= ±) |(?<=\d) (?=%)", re.DOTALL)


@event_priority(100)  # before mkdocs-jupyter, which takes the notebooks among the files
def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages, the files that they link and the report; lists the pages in `nav`."""
    root = Path(config.config_file_path).parent
    texts = papers.pages(root) | reference.pages()
    sources = {path.relative_to(root).as_posix() for pattern in PAGES for path in root.glob(pattern)}
    targets = {target for name in sources if name.endswith(".md") for target in _targets(root, name)}
    for name in sorted(sources | {name for name in targets if (root / name).is_file()}):
        files.append(File(name, str(root), config.site_dir, config.use_directory_urls))
    for name, text in texts.items():
        files.append(File.generated(config, name, content=text))
    files.append(File.generated(config, "report.html", content=report(root / config.extra["report"])))
    config.nav = listed(config.nav, sorted([*sources, *texts]))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Inserts the programs that a page includes."""
    here = Path(page.file.abs_src_path or "").parent
    return INCLUDE.sub(lambda link: program(link[1], here, link[2]), markdown)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Keeps each number on one line, and gives a notebook's pictures an alternative text."""
    html = html.replace(NO_TEXT, "Drawn by the lines above")
    return WITHIN.sub(lambda space: space[1] or "\N{NO-BREAK SPACE}", html)


def report(path: Path) -> str:
    """Page of `make report`, with a link to the site at the start of its header.

    Raises:
        PluginError: when `make report` has not run.
    """
    if not path.is_file():
        raise PluginError(f"there is no report {path}; run `make report` first")
    before, header, after = path.read_text(encoding="utf-8").partition("<header>")
    return f'{before}{header}\n<p class="site"><a href="index.html">All pages of the site</a></p>{after}'


def program(heading: str, folder: Path, link: str) -> str:
    """Program's text below a heading, as Markdown; `link` is its path from the folder.

    Raises:
        PluginError: when it does not exist.
    """
    path = folder / link
    if not path.is_file():
        raise PluginError(f"a page includes {link} in {folder}, which does not exist")
    return f"## {heading}\n\n`{path.name}`:\n\n```python\n{path.read_text(encoding='utf-8')}```"


def _targets(root: Path, name: str) -> set[str]:
    """Files that a page links or draws, by their paths from the root."""
    targets = LINK.findall((root / name).read_text(encoding="utf-8"))
    return {posixpath.normpath(posixpath.join(posixpath.dirname(name), target)) for target in targets}


def listed(entries: Any, names: list[str]) -> Any:
    """Entries of `nav`; the pages that match a pattern such as stages/*/README.md replace it."""
    if isinstance(entries, dict):
        return {title: listed(inner, names) for title, inner in entries.items()}
    if isinstance(entries, str):
        return entries
    return [one for entry in entries for one in (matching(names, entry) if "*" in entry else [listed(entry, names)])]
