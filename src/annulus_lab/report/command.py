"""`annulus report`: all that metrics/ holds as one page, beside the papers' numbers; prints where the page is.

The page is one file, data/report/index.html; report.md beside it has the same as Markdown. Nothing is trained.
"""

import argparse
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from annulus.errors import InputError
from annulus.files.results import write_text
from annulus_lab.compare.sides import repository
from annulus_lab.report.page.content import gather
from annulus_lab.report.page.html import html
from annulus_lab.report.page.markdown import markdown


def main(argv: Sequence[str] | None = None) -> None:
    """Writes data/report/index.html and report.md under --root."""
    parser = argparse.ArgumentParser(prog="annulus report", description=__doc__)
    parser.add_argument("--root", type=Path, help="the repository; by default the one of the working directory")
    folder = parser.parse_args(argv).root
    root = folder or repository(Path())
    if not root.is_dir():
        raise InputError(f"--root {root} is no folder; name the repository's")
    report = gather(root, datetime.now(UTC))
    for name, content in (("index.html", html(report)), ("report.md", markdown(report))):
        path = root / "data" / "report" / name
        write_text(path, content)
        print(path)
