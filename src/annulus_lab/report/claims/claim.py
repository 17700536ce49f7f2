"""One claim of a paper: its sentence, the numbers that it is about, and the rules that decide it."""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from annulus_lab.report.claims.rules import Term
from annulus_lab.report.claims.selectors import Selector
from annulus_lab.report.claims.truth import ClaimNumber, RuleFault, Truth, Value
from annulus_lab.report.papers.setting import PaperSetting, plain

Rule = Callable[..., Term]


@dataclass(frozen=True)
class Claim:
    """An entry of the list of a paper's claims.

    id: the paper's short name, a dot, and a name.
    claim: one sentence.
    direction: a rule, a function of the claim's numbers (annulus_lab.report.claims.rules), that decides on any data
        set; None for a claim about printed numbers alone.
    where: ids of published.yaml, the tables and figures that it is about; none for a theorem, which the sentence names.
    size: a rule that compares the numbers with printed ones; it decides on the paper's own data and scale alone.
    dataset: the paper's own data sets; none: numbers that are computed or drawn.
    values: where the rules' numbers are, in the order in which the page shows them; none: nothing measures them yet.
    tested: tests that assert the claim where no metrics file holds a number.
    ours: a check of this project, beside the paper's table or figure.
    """

    id: str
    claim: str
    direction: Rule | None = None
    where: Sequence[str] = ()
    size: Rule | None = None
    dataset: Sequence[str] = ()
    values: Mapping[str, Selector] = field(default_factory=dict)
    tested: Sequence[str] = ()
    ours: bool = False

    @property
    def paper(self) -> str:
        """The paper's short name."""
        return self.id.partition(".")[0]

    @property
    def rules(self) -> list[Rule]:
        """The rules that the claim has: direction, size."""
        return [rule for rule in (self.direction, self.size) if rule is not None]

    @property
    def names(self) -> list[str]:
        """The numbers that the rules need."""
        return list(dict.fromkeys(name for rule in self.rules for name in inspect.signature(rule).parameters))

    @property
    def of_images(self) -> bool:
        """False for theorems, timings, and numbers that are computed or drawn."""
        studies = {selector.file.partition("/")[0] for selector in self.values.values()}
        return not (studies <= {"estimators", "spirals", "benchmarks"} and (studies or self.tested))

    def truth(self, rule: Rule, numbers: Mapping[str, Value]) -> Truth:
        """Truth of one of the rules for these numbers.

        Raises:
            RuleFault: for a number that is not finite, a division by zero, lists of unlike length.
        """
        term = rule(**{name: _term(name, numbers[name]) for name in inspect.signature(rule).parameters})
        if not isinstance(term.value, Truth):
            raise TypeError(
                f"{self.id}: {term.text} is a list or a number; a rule ends with one comparison, .all() or .any()"
            )
        return term.value

    def is_own(self, setting: PaperSetting) -> bool:
        """True for the paper's own data and scale, where a size is decided."""
        known = {plain(name) for name in self.dataset}
        computed = setting.drawn is not None and setting.scale is None  # the same at every scale
        return (computed or setting.scale in ("paper", "gpu")) and (not known or known >= setting.data)


def text(rule: Rule) -> str:
    """A rule as text."""
    return rule(**{name: Term(name) for name in inspect.signature(rule).parameters}).text


def _term(name: str, value: Value) -> Term:
    """A claim's number as its rule takes it."""
    listed = [one if isinstance(one, ClaimNumber) else ClaimNumber(float(one)) for one in _several(value)]
    if not listed:
        raise RuleFault(f"{name} is an empty list")
    for one in listed:
        if not math.isfinite(one.value):
            raise RuleFault(f"{name} is {one.value}")
    return Term(name, listed if isinstance(value, list) else listed[0])


def _several(value: Value) -> list[float] | list[ClaimNumber]:
    return value if isinstance(value, list) else [value]
