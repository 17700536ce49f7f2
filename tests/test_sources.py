"""Every citation of a paper names a place that the paper has: tests/numbering.yaml lists them.

A docstring's `Source:` gives authors, year, arXiv id and the paper's own numbers, citations separated by semicolons:
`Source: Wu et al. 2020, arXiv:2005.13149, Section 3.1, Eq. 4 (remark); torchvision's RandomResizedCrop.get_params.`
Comments and settings may use a short name: `mutualinfo Appendix C.2`, `ring.fig2b`.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from by_path import ROOT, read_yaml

from annulus_lab.report.claims.verdicts import CLAIMS

PAPERS = read_yaml(ROOT / "tests" / "numbering.yaml")
REFERENCES = PAPERS.pop("references")
SHORT = {paper["short"]: paper for paper in PAPERS.values() if "short" in paper}

KINDS = {
    "sections": "Sections?|Appendix|Appendices",
    "equations": r"Eqs?\.",
    "tables": "Tables?",
    "figures": "Figures?",
    "theorems": "Theorems?",
    "lemmas": "Lemmas?",
    "corollaries": "Corollary|Corollaries",
    "propositions": "Propositions?",
    "examples": "Examples?",
    "remarks": "Remarks?",
    "algorithms": "Algorithms?",
}
NUMBER = r"(?:[A-Z](?:\.\d+)+|[A-Z](?![\w.]\w)(?!\w)|\d+(?:\.\d+)*(?:[a-h]|\([a-h]\))?)"
ITEM = re.compile(rf"\b({'|'.join(KINDS.values())})\s+({NUMBER}(?:(?:,\s+|\s+and\s+|\s+to\s+){NUMBER})*)")
NAMES = "|".join(SHORT)
WITH_ARXIV = re.compile(r"(?P<cited>[^;,]+ \d{4}), arXiv:(?P<id>\d{4}\.\d{4,5}), (?P<places>.+)", re.DOTALL)
SENTENCE_ENDS = re.compile(r"\.(?=\s+[A-Z`]|\s*$)")
BY_SHORT_NAME = re.compile(rf"\b({NAMES}),?\s+(?={'|'.join(KINDS.values())})")
IN_SETTINGS = re.compile(rf"\b({NAMES})\.(table|fig)(\d+[a-h]?)")
NO_PLACE = re.compile(rf"\b(?:{NAMES})(?:\.md|\s+(?:sec|eq|fig|table|app|Thm|Coro|[A-D]?\.?\d+\.\d))|\bpapers/")


def numbers(listed: Any) -> set[str]:
    """`1 2a-2c 4` as {1, 2a, 2b, 2c, 4}."""
    values = set()
    for first, _, last in (word.partition("-") for word in str(listed or "").split()):
        if last.isdecimal():
            values |= {str(number) for number in range(int(first), int(last) + 1)}
        else:
            values |= {first[:-1] + chr(letter) for letter in range(ord(first[-1]), ord((last or first)[-1]) + 1)}
    return values


def places(text: str) -> Iterator[tuple[str, str]]:
    """Each place that a text names, as its kind and its number: `Eqs. 4 to 6` are three."""
    for word, listed in ITEM.findall(text):
        kind = next(kind for kind, pattern in KINDS.items() if re.fullmatch(pattern, word))
        for first, last in re.findall(rf"({NUMBER})(?:\s+to\s+({NUMBER}))?", listed):
            span = range(int(first), int(last) + 1) if last else [re.sub(r"[()]", "", first)]
            yield from ((kind, str(number)) for number in span)


def missing(paper: dict[str, Any], text: str) -> list[str]:
    """Places in a text that the paper does not have."""
    absent = [(kind, number) for kind, number in places(text) if number not in numbers(paper.get(kind))]
    return [f"{paper.get('short', paper['cited'])} has no {number} among its {kind}" for kind, number in absent]


def blocks(path: Path) -> Iterator[tuple[int, str]]:
    """Line and text of docstrings and comments, with consecutive comment lines as one. Other files: comments only."""
    text = path.read_text(encoding="utf-8")
    docstrings = re.finditer(r'"""(.*?)"""', text, re.DOTALL) if path.suffix == ".py" else ()
    for match in (*docstrings, *re.finditer(r"((?:^[ \t]*#.*\n?)+)|[ \t]#[ \t](.*)$", text, re.MULTILINE)):
        prose = re.sub(r"^[ \t]*#[# ]*", "", match[1], flags=re.MULTILINE) if match[1] else match[2]
        yield text.count("\n", 0, match.start()) + 1, prose


def sources(text: str) -> Iterator[tuple[int, str]]:
    """Each citation of each `Source:`, with the number of lines before it."""
    for match in re.finditer(r"\bSource: (\S.*?)(?=\n\s*\n|\Z)", text, re.DOTALL):
        sentence = SENTENCE_ENDS.split(match[1])[0]
        for part in sentence.split(";"):
            yield text.count("\n", 0, match.start()), re.sub(r"\s+", " ", part).strip()


def fault(citation: str) -> str | None:
    """Error in one citation of a `Source:`, or None."""
    named = WITH_ARXIV.match(citation)
    if named is None:
        if any(citation.startswith(reference) for reference in REFERENCES):
            return None
        return f"{citation!r} is neither `Authors Year, arXiv:ID, Section 3.1, Eq. 4` nor among the references"
    paper = PAPERS.get(named["id"])
    if paper is None:
        return f"arXiv:{named['id']} is not listed"
    if named["cited"] != paper["cited"]:
        return f"arXiv:{named['id']} is cited as {named['cited']!r}, its authors and year are {paper['cited']!r}"
    if not list(places(named["places"])):
        return f"{citation!r} names no section, equation, table, figure, theorem or algorithm"
    return "; ".join(missing(paper, named["places"])) or None


def faults(path: Path) -> list[str]:
    messages = []
    for line, text in blocks(path):
        messages += [(line + offset, fault(citation)) for offset, citation in sources(text)]
        for match in BY_SHORT_NAME.finditer(text):
            rest, at = ITEM.match(text, match.end()), line + text.count("\n", 0, match.start())
            wrong = missing(SHORT[match[1]], rest[0]) if rest else [f"{match[1]} is cited without a number"]
            messages += [(at, one) for one in wrong]
        for match in NO_PLACE.finditer(text):
            at = line + text.count("\n", 0, match.start())
            messages.append(
                (at, f"{match[0]!r} is no place in a paper; write `mutualinfo Appendix C.2`, `mlcpc Eq. 4`")
            )
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        for name, kind, place in IN_SETTINGS.findall(text):
            if place not in numbers(SHORT[name]["tables" if kind == "table" else "figures"]):
                messages.append((number, f"{name} has no {kind} {place}"))
    return [f"{path.relative_to(ROOT)}:{line}: {message}" for line, message in messages if message]


@pytest.fixture(scope="module")
def texts() -> list[Path]:
    paths = [path for folder in ("src", "stages") for path in (ROOT / folder).rglob("*")]
    return [path for path in paths if path.suffix in (".py", ".yaml")] + [ROOT / "params.yaml", ROOT / "dvc.yaml"]


def test_every_citation_claim_and_result_names_a_place_that_its_paper_has(texts):
    wrong = [message for path in texts for message in faults(path)]
    for claim in CLAIMS:
        wrong += [f"{claim.id}: {message}" for message in missing(SHORT[claim.paper], claim.claim)]
    for result in read_yaml(ROOT / "src/annulus_lab/report/papers/published.yaml"):
        where = result["where"].replace("Fig.", "Figure").replace("Sec.", "Section")
        wrong += [f"{result['id']}: {message}" for message in missing(SHORT[result["id"].split(".")[0]], where)]
    assert not wrong, "\n".join(wrong)
    cited = [citation for path in texts for _, text in blocks(path) for _, citation in sources(text)]
    assert len(cited) > 30
    for arxiv in ("2005.13149", "2010.02037", "2007.09852", "2010.01929"):
        assert any(arxiv in citation for citation in cited)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Source: Wu et al. 2020, arXiv:2005.13149, Section 3.1, Eq. 4", None),
        ("Source: Zhu et al. 2020, arXiv:2010.01929, Eqs. 4 to 6, Appendix A.1 (proof); Pillow's Resample.c", None),
        ("Source: Wu et al. 2020, arXiv:2005.13149, Eq. 9", "has no 9 among its equations"),
        ("Source: Song and Ermon 2020, arXiv:2005.13149, Eq. 4", "its authors and year are 'Wu et al. 2020'"),
        ("Source: Wu et al. 2020, arXiv:2005.13149", "neither"),
        ("Source: Wu et al. 2020, arXiv:2099.00001, Eq. 3", "is not listed"),
        ("As in mutualinfo Appendix C.2, ring Theorem 3.1.", None),
        ("as mutualinfo Appendix C.7 has it", "has no C.7 among its sections"),
        ("figure: ring.fig7", "has no fig 7"),
        ("half of all (mlcpc section 3, 2)", "is no place in a paper"),
    ],
)
def test_a_citation_is_read_as_it_is_written_and_refused_by_file_and_line(text, message, tmp_path, monkeypatch):
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    for content in (f"seed: 0\n# {text}\n", f"a: 1\nb: 2  # {text}\n"):
        (tmp_path / "params.yaml").write_text(content)
        messages = faults(tmp_path / "params.yaml")
        assert (
            messages == []
            if message is None
            else (messages[0].startswith("params.yaml:2: ") and message in messages[0])
        )
