"""One claim of a paper: its sentence, its numbers, and the rules that decide it."""

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
    """Entry of the list of a paper's claims.

    id: the paper's short name, a dot, and a name.
    claim: one sentence.
    direction: a rule, a function of the claim's numbers (annulus_lab.report.claims.rules), that decides on any data
        set; None for a claim about printed numbers alone.
    where: its tables and figures, as ids of published.yaml; empty for a theorem, which the sentence names.
    size: a rule that compares the numbers with printed ones; it decides on the paper's own data and scale alone.
    dataset: the paper's own data sets; empty for numbers that are computed or drawn.
    values: selectors of the rules' numbers, in the order of the page; empty if nothing measures them yet.
    tests: tests that assert the claim if no metrics file holds a number.
    ours: a check of this project, beside the paper's table or figure.
    """

    id: str
    claim: str
    direction: Rule | None = None
    where: Sequence[str] = ()
    size: Rule | None = None
    dataset: Sequence[str] = ()
    values: Mapping[str, Selector] = field(default_factory=dict)
    tests: Sequence[str] = ()
    ours: bool = False

    @property
    def paper(self) -> str:
        """The paper's short name."""
        return self.id.partition(".")[0]

    @property
    def rules(self) -> list[Rule]:
        """The claim's rules: direction, size."""
        return [rule for rule in (self.direction, self.size) if rule is not None]

    @property
    def names(self) -> list[str]:
        """Names of the numbers that the rules need."""
        return list(dict.fromkeys(name for rule in self.rules for name in inspect.signature(rule).parameters))

    @property
    def uses_images(self) -> bool:
        """False for theorems, timings, and numbers that are computed or drawn."""
        studies = {selector.file.partition("/")[0] for selector in self.values.values()}
        return not (studies <= {"estimators", "spirals", "benchmarks"} and (studies or self.tests))

    def truth(self, rule: Rule, numbers: Mapping[str, Value]) -> Truth:
        """Returns the truth of one of the rules for these numbers.

        Raises:
            RuleFault: for a number that is not finite, a division by zero, lists of different lengths.
        """
        term = rule(**{name: _term(name, numbers[name]) for name in inspect.signature(rule).parameters})
        if not isinstance(term.value, Truth):
            raise TypeError(
                f"{self.id}: {term.text} is a list or a number; a rule ends with one comparison, .all() or .any()"
            )
        return term.value

    def is_own(self, setting: PaperSetting) -> bool:
        """True for the paper's own data and scale, which decide a size."""
        own_data = {plain(name) for name in self.dataset}
        computed = setting.synthetic is not None and setting.scale is None  # the same at every scale
        return (computed or setting.scale in ("paper", "gpu")) and (not own_data or own_data >= setting.data)


def text(rule: Rule) -> str:
    """Returns a rule as text."""
    return rule(**{name: Term(name) for name in inspect.signature(rule).parameters}).text


def _term(name: str, value: Value) -> Term:
    """Returns a claim's number as a term of its rule."""
    listed = [one if isinstance(one, ClaimNumber) else ClaimNumber(float(one)) for one in _several(value)]
    if not listed:
        raise RuleFault(f"{name} is an empty list")
    for one in listed:
        if not math.isfinite(one.value):
            raise RuleFault(f"{name} is {one.value}")
    return Term(name, listed if isinstance(value, list) else listed[0])


def _several(value: Value) -> list[float] | list[ClaimNumber]:
    return value if isinstance(value, list) else [value]
