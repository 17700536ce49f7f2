"""All pages of the site in one folder, and MkDocs over it."""

import logging
import shutil
from pathlib import Path
from typing import Any

import yaml
from mkdocs.commands.build import build as build_site
from mkdocs.config import load_config
from mkdocs.exceptions import Abort, MkDocsException

from annulus.errors import InputError
from annulus.site import notebooks, papers, reference
from annulus.site.sections import Book, Piece

ASSETS = "docs/assets"


def assemble(root: Path, folder: Path, report: Path) -> None:
    """Write every page into an empty folder; `report` is the page of `annulus report`.

    Raises:
        InputError: when a page includes or links what does not exist, or a notebook fails.
    """
    shutil.rmtree(folder, ignore_errors=True)
    book = Book(root)
    files = {path.name: path.relative_to(root).as_posix() for path in sorted((root / "docs").glob("*.md"))}
    files["studies/index.md"] = files.pop("studies.md")
    studies = {path.parent.name: path.relative_to(root).as_posix() for path in sorted(root.glob("stages/*/README.md"))}
    names = {"index.md": "README.md", "reference/index.md": "src/annulus/PUBLIC.md"}
    book.add(names | files | {f"studies/{name}.md": file for name, file in studies.items()})
    made = papers.pages(root) | reference.pages()
    for page, text in made.items():
        book.pages[page] = [Piece("README.md", text)]
    pictures = {}
    for path in sorted((root / "docs/notebooks").glob("*.ipynb")):
        text, drawn = notebooks.markdown(notebooks.run(path, root), path.stem)
        page, file = f"notebooks/{path.stem}.md", path.relative_to(root).as_posix()
        book.homes[file, ""] = page, ""
        book.pages[page] = [Piece(file, text)]
        pictures |= {f"notebooks/{name}": content for name, content in drawn.items()}
    book.write(folder, pictures)
    shutil.copytree(root / ASSETS, folder / "assets")
    (folder / "report.html").write_text(with_way_back(report), encoding="utf-8")


def with_way_back(report: Path) -> str:
    """The report's page, which begins with a link to the site.

    Raises:
        InputError: when it cannot be read, or is no page of `annulus report`.
    """
    try:
        page = report.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot read the report {report}: {error.strerror}; run `make report` first") from error
    before, header, after = page.partition("<header>")
    if not header:
        raise InputError(f"{report} is not a page that `make report` makes: it has no <header>")
    return f'{before}{header}\n<p class="site"><a href="index.html">All pages of the site</a></p>{after}'


class _Warnings(logging.Handler):
    """Keeps MkDocs' warnings."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def build(root: Path, pages: Path, site: Path) -> None:
    """Run MkDocs over the pages.

    Raises:
        InputError: with MkDocs' warnings, such as a page that is in no list.
    """
    nav = _listed(pages, yaml.safe_load((root / "mkdocs.yml").read_text(encoding="utf-8"))["nav"])
    warnings, log = _Warnings(), logging.getLogger("mkdocs")
    log.addHandler(warnings)
    propagates, log.propagate = log.propagate, False
    try:
        config = load_config(str(root / "mkdocs.yml"), docs_dir=str(pages), site_dir=str(site), nav=nav, strict=True)
        config.plugins.run_event("startup", command="build", dirty=False)
        build_site(config)
        config.plugins.run_event("shutdown")
    except (MkDocsException, Abort) as error:
        raise InputError("\n".join(["the site is not whole:", *(warnings.lines or [str(error)])])) from error
    finally:
        log.removeHandler(warnings)
        log.propagate = propagates


def _listed(pages: Path, entries: Any) -> Any:
    """A list of `nav`, in which a folder (its name ends with a slash) stands for its pages that are not named."""
    if isinstance(entries, str):
        return _listed(pages, [entries]) if entries.endswith("/") else entries
    listed: list[Any] = []
    for entry in entries:
        if isinstance(entry, dict):
            listed.append({name: _listed(pages, inner) for name, inner in entry.items()})
        elif entry.endswith("/"):
            names = [path.relative_to(pages).as_posix() for path in sorted((pages / entry).glob("*.md"))]
            listed += [name for name in names if name not in entries]
        else:
            listed.append(entry)
    return listed
