"""`python -m annulus.site`: the documentation site, into build/site, which git ignores."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from annulus.errors import InputError
from annulus.site.build import assemble, build


def main(argv: Sequence[str] | None = None) -> None:
    """Build the site and print its first page. A user's mistake is one sentence and exit status 1."""
    parser = argparse.ArgumentParser(prog="python -m annulus.site", description=__doc__)
    parser.add_argument("--root", type=Path, default=Path(), help="the repository, where `annulus report` has run")
    root = parser.parse_args(argv).root.resolve()
    pages, site = root / "build" / "pages", root / "build" / "site"
    try:
        assemble(root, pages, root / "data" / "report" / "index.html")
        build(root, pages, site)
    except InputError as error:
        raise SystemExit(f"ERROR: {error}") from None
    print(site / "index.html")


if __name__ == "__main__":
    main()
