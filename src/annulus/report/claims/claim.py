"""One claim of a paper: its sentence, the numbers that it is about, and the rule that decides it."""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from annulus.report.claims.rules import Term
from annulus.report.claims.selectors import Selector
from annulus.report.claims.truth import Estimate, RuleFault, Truth, Value
from annulus.report.papers.setting import Setting, plain


@dataclass(frozen=True)
class Claim:
    """An entry of the list of a paper's claims.

    id: the paper's short name, a dot, and a name.
    claim: one sentence.
    rule: a function of the claim's numbers (annulus.report.claims.rules) that is true where the claim holds.
    where: ids of results.yaml, the tables and figures that it is about; none for a theorem, which the sentence names.
    scale: where the numbers are conclusive: `any`; `paper` for accuracies and for effects of full training; `gpu` where
        only a GPU reaches the paper's setting.
    dataset: on which data sets they are; none: on any.
    values: where the rule's numbers are, in the order in which the page shows them; none: nothing measures them yet.
    tested: tests that assert the claim where no metrics file holds a number.
    """

    id: str
    claim: str
    rule: Callable[..., Term]
    where: Sequence[str] = ()
    scale: Literal["any", "paper", "gpu"] = "any"
    dataset: Sequence[str] = ()
    values: Mapping[str, Selector] = field(default_factory=dict)
    tested: Sequence[str] = ()

    @property
    def paper(self) -> str:
        """The paper's short name."""
        return self.id.partition(".")[0]

    @property
    def names(self) -> list[str]:
        """The numbers that the rule needs."""
        return list(inspect.signature(self.rule).parameters)

    @property
    def text(self) -> str:
        """The rule as text."""
        return self.rule(**{name: Term(name) for name in self.names}).text

    def truth(self, numbers: Mapping[str, Value]) -> Truth:
        """Truth of the rule for these numbers.

        Raises:
            RuleFault: for a number that is not finite, a division by zero, lists of unlike length.
        """
        found = self.rule(**{name: _term(name, value) for name, value in numbers.items()})
        if not isinstance(found.value, Truth):
            raise TypeError(
                f"{self.id}: {found.text} is a list or a number; a rule ends with one comparison, .all() or .any()"
            )
        return found.value

    def decided_by(self, setting: Setting) -> bool:
        """True if numbers of this setting can decide the claim."""
        reached = {"any": True, "paper": setting.scale in ("paper", "gpu"), "gpu": setting.scale == "gpu"}[self.scale]
        known = {plain(name) for name in self.dataset}
        return reached and (not known or plain(setting.dataset) in known)

    def about(self) -> str:
        """Scale and data set of a claim, in words."""
        scale = "the papers' scale" + (" (`scale: gpu` of its study)" if self.scale == "gpu" else "")
        return f"{' or '.join(self.dataset)} at {scale}" if self.dataset else scale


def _term(name: str, value: Value) -> Term:
    """A claim's number as its rule takes it."""
    listed = [one if isinstance(one, Estimate) else Estimate(float(one)) for one in _several(value)]
    if not listed:
        raise RuleFault(f"{name} is an empty list")
    for one in listed:
        if not math.isfinite(one.value):
            raise RuleFault(f"{name} is {one.value}")
    return Term(name, listed if isinstance(value, list) else listed[0])


def _several(value: Value) -> list[float] | list[Estimate]:
    return value if isinstance(value, list) else [value]
