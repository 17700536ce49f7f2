"""Studies and their own params.yaml. Every file holds

    scale      the scale of the study: a key of `scales`
    seeds      every variant runs once with each seed
    scales     for each scale, settings that replace others

`read` checks the whole file by the study's model. There are three kinds of study:

`OwnStudy` has only sections of its own, without the root's params.yaml. scales.SCALE.SECTION holds the scale's changes.
`Study` has many variants of the root's params.yaml. Each variant is a short dict of changes to

    defaults   settings of the whole study: every selector, so that the root's choices do not change a study

A dict of settings has the root's full keys (`methods.moco.head: mlp`). In a key, ${scale} is the scale.
`MainStudy` measures the main line: a variant is a change of the root's params.yaml, at the root's scale.

A study may run the rows, parts or generators of another study under other settings, for example on other images.
Studies of one form have equal copies of one dvc.yaml. It reads two keys of each params.yaml:

    study      the name of the study and of its folder
    of         the study whose rows, parts or generators it runs; its own name, if they are its own

With `of` another study, the file holds only the differences, and all other keys are the other study's:

    defaults, each of scales       keys that are missing here are the other study's
    rows, parts, generators        only the names that stand here, with their changes
    their changes                  come after the other study's settings for a scale
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

from annotated_types import MinLen

from annulus.errors import InputError, abridge, nearest
from annulus.settings import Section
from annulus_lab.config.all_params import AllParams
from annulus_lab.config.file import checked
from annulus_lab.config.params import Seeds, kinds
from annulus_lab.config.sections import SELECTOR_SECTIONS
from annulus_lab.config.tree import read_tree

Settings = dict[str, Any]
Model = TypeVar("Model", bound=Section)
Value = TypeVar("Value")


@dataclass(frozen=True, kw_only=True)
class OwnParams(Section):
    """Keys of the params.yaml of every study."""

    optional = True
    study: str | None = None
    of: str | None = None
    scale: str
    seeds: Seeds
    scales: Annotated[dict[str, Settings], MinLen(1)]


@dataclass(frozen=True, kw_only=True)
class StudyParams(OwnParams):
    """Keys of a study whose variants start from the root's params.yaml."""

    defaults: Settings


class OwnStudy:
    """Study that has only its own settings."""

    model: ClassVar[type[OwnParams]] = OwnParams

    def __init__(self, own: Path, scale: str | None = None) -> None:
        """`scale`: replaces the file's scale.

        Raises:
            InputError: when the file cannot be read, or lacks a key that all studies have.
        """
        self.path, self.content = own, study_content(own) | ({} if scale is None else {"scale": scale})
        known = {key: self.content[key] for key in kinds(self.model) if key in self.content}
        self.params = checked(known, str(own), self.model)
        if (chosen := self.params.scale) not in self.params.scales:
            known = f"{', '.join(self.params.scales)}{nearest(chosen, self.params.scales)}"
            raise InputError(f"{own}: scale: {chosen!r} is none of {known}")

    def read(self, model: type[Model]) -> Model:
        """Checks the whole file by a model that has every key.

        Raises:
            InputError: for an unknown or missing key, or a value that the model refuses.
        """
        return checked(self.content, str(self.path), model)

    def value_at_scale(self, values: Mapping[str, Value], where: str) -> Value:
        """Value for the study's scale in a section with one value per scale.

        Raises:
            InputError: when the value is missing, or the section has an unknown scale.
        """
        for scale in values:
            if scale not in self.params.scales:
                known = f"none of {', '.join(self.params.scales)}{nearest(scale, self.params.scales)}"
                raise InputError(f"{self.path}: {where}: {scale!r} is {known}")
        if self.params.scale not in values:
            raise InputError(f"{self.path}: {where}.{self.params.scale}: missing; the study's scale has no value here")
        return values[self.params.scale]

    def section(self, name: str, model: type[Model]) -> Model:
        """Section of a name (`staircases.joint`), with the scale's changes, as a checked model.

        Raises:
            InputError: when the section does not exist, or the model refuses a value.
        """
        section, scaled = self.content, self.params.scales[self.params.scale]
        for part in name.split("."):
            sections = [key for key, inner in section.items() if isinstance(inner, dict)]
            for key in scaled:
                if key not in sections:  # it would set nothing
                    where = f"{self.path}: scales.{self.params.scale}: {key!r} is not a section"
                    raise InputError(f"{where}{nearest(key, sections)}")
            scaled = self._inner({part: {}} | scaled, part, f"scales.{self.params.scale}.{name}")
            section = self._inner(section, part, name)
        return checked(section | scaled, f"{self.path}: {name}", model)

    def row(self, section: str, name: str) -> Settings:
        """Keys and values of a name in one of the study's sections; `read` must have checked the file.

        Raises:
            InputError: when the name does not exist, with the nearest one.
        """
        rows = self.content[section]
        if name not in rows:
            raise InputError(f"{self.path}: {section} has no {name!r}{nearest(name, rows)}")
        return rows[name]

    def _inner(self, tree: Settings, part: str, name: str) -> Settings:
        inner = tree.get(part)
        if not isinstance(inner, dict):
            meant = "" if part in tree else nearest(part, tree)
            raise InputError(f"{self.path}: {name}: expected keys and values{meant}")
        return inner


class Study(OwnStudy):
    """Study whose settings change the root's."""

    model = StudyParams

    def __init__(self, root: Path, own: Path, scale: str | None = None) -> None:
        """`scale`: replaces the study's scale.

        Raises:
            InputError: when a file cannot be read, or the study lacks a key that all studies have.
        """
        super().__init__(own, scale)
        if missing := SELECTOR_SECTIONS.keys() - {"scale"} - self.params.defaults.keys():
            raise InputError(f"{own}: defaults: lacks {', '.join(sorted(missing))}; a study sets every selector")
        self._tree = read_tree(root)
        checked(self._tree, str(root))  # first, so that a fault of the root is named there
        self._tree["scale"] = scale = self.params.scale
        _set(self._tree, self.params.defaults, scale, f"{own}: defaults")
        _set(self._tree, self.params.scales[scale], scale, f"{own}: scales.{scale}")

    @property
    def dataset(self) -> str:
        """Data set of all variants that do not set another one."""
        return (self.params.defaults | self.params.scales[self.params.scale])["dataset"]

    @property
    def measured(self) -> Settings:
        """Further measurements of each run, as keys of a stage's settings."""
        views = self.content.get("closeness_views")
        return {} if views is None else {"closeness_views": views}

    def variant(self, name: str, settings: Mapping[str, Any], seed: int) -> AllParams:
        """Parameters of one run: the root's, then the defaults, the scale's settings, and these settings.

        Raises:
            InputError: for a key that the root's params.yaml lacks, or a value that it refuses.
        """
        return _changed(self._tree | {"seeds": [seed]}, settings, self.params.scale, f"{self.path}: {name}")


class MainStudy(OwnStudy):
    """Study of the main line's encoders: its own settings, and variants of the root's params.yaml."""

    def __init__(self, root: Path, own: Path) -> None:
        """Reads both files.

        Raises:
            InputError: when a file cannot be read, or the root's file has a fault.
        """
        super().__init__(own)
        self._tree = read_tree(root)
        self.main = checked(self._tree, str(root))

    @property
    def seeds(self) -> list[int]:
        """Seeds of the study that the main line has.

        Raises:
            InputError: when the main line and the study share no seed.
        """
        common = [seed for seed in self.params.seeds if seed in self.main.seeds]
        if not common:
            raise InputError(
                f"{self.path}: seeds: the main line has an encoder of none of {abridge(self.params.seeds)}; "
                f"take some of its seeds: {abridge(self.main.seeds)}"
            )
        return common

    def variant(self, name: str, settings: Mapping[str, Any]) -> AllParams:
        """Parameters of the main line with these settings.

        Raises:
            InputError: for a key that the root's params.yaml lacks, or a value that it refuses.
        """
        return _changed(self._tree, settings, self.main.scale, f"{self.path}: {name}")


def study_content(own: Path) -> Settings:
    """Content of a study's params.yaml, over the content of the study that `of` names.

    Raises:
        InputError: when a file cannot be read, or `of` names an unknown study.
    """
    content = read_tree(own)
    if not {"study", "of"} & content.keys():
        return content
    for key in ("study", "of"):
        if not isinstance(content.get(key), str):
            fault = f"{abridge(content[key])} refused" if key in content else "missing"
            raise InputError(f"{own}: {key}: {fault}; write the name of a study's folder")
    if content["study"] == content["of"]:
        return content
    studies = own.resolve().parents[1]
    known = sorted(path.parent.name for path in studies.glob("*/params.yaml"))
    if content["of"] not in known:
        near, listed = nearest(content["of"], known), ", ".join(known) or "none"
        raise InputError(f"{own}: of: {abridge(content['of'])} is not a study{near} (studies: {listed})")
    base = read_tree(studies / content["of"] / "params.yaml")
    if isinstance(whose := base.get("of"), str) and whose != content["of"]:
        raise InputError(f"{own}: of: {abridge(content['of'])} has the rows or parts of {whose!r}; write that")
    merged = base | content
    if "defaults" in content:
        merged["defaults"] = _over(base.get("defaults"), content["defaults"])
    merged["scales"] = _over_each(base.get("scales"), content.get("scales", {}))
    for section in {"rows", "parts", "generators"} & content.keys() & base.keys():
        merged[section] = _chosen(base[section], content[section], f"{own}: {section}", content["of"])
    return merged


def _over(base: Any, changes: Any) -> Any:
    return base | changes if isinstance(base, dict) and isinstance(changes, dict) else changes


def _over_each(base: Any, changes: Any) -> Any:
    if not (isinstance(base, dict) and isinstance(changes, dict)):
        return changes
    return base | {name: _over(base.get(name, {}), own) for name, own in changes.items()}


def _chosen(base: Any, changes: Any, where: str, other: str) -> Any:
    """Entries that `changes` names, each with its changes; a new name brings all of its settings."""
    if not (isinstance(base, dict) and isinstance(changes, dict)):
        return changes
    for name, own in changes.items():
        if name not in base and not own:
            raise InputError(f"{where}: {name!r} is not among those of {other}{nearest(name, base)}")
    return {name: _entry(base.get(name, {}), own) for name, own in changes.items()}


def _entry(base: Any, own: Any) -> Any:
    """Row, part or generator with its changes; they also come after the other study's settings at each scale."""
    scales = base.get("scales") if isinstance(base, dict) else None
    if isinstance(scales, dict) and isinstance(own, dict) and "scales" not in own:
        own = own | {"scales": _over_each(scales, dict.fromkeys(scales, own))}
    return _over(base, own)


def _changed(tree: Settings, settings: Mapping[str, Any], scale: str, source: str) -> AllParams:
    changed = copy.deepcopy(tree)
    _set(changed, settings, scale, source)
    return checked(changed, source)


def _set(tree: dict[str, Any], settings: Mapping[str, Any], scale: str, source: str) -> None:
    for key, value in settings.items():
        parts = key.replace("${scale}", scale).split(".")
        if parts[0] in ("seeds", "scale"):  # the study's own keys decide
            raise InputError(f"{source}: {key} would change nothing; {parts[0]} is set at the top of the study's file")
        if parts[0] == "scales" and parts[1:2] != [scale]:
            raise InputError(
                f"{source}: {key} is not of {scale!r}, the study's scale, and would change "
                "nothing; write ${scale} in its place (`dvc exp run -S scale=` writes the name that it then has)"
            )
        place = tree
        for part in parts:
            if not isinstance(place, dict) or part not in place:
                known = list(place) if isinstance(place, dict) else []
                raise InputError(f"{source}: {key}: params.yaml has no {part!r}{nearest(part, known)}")
            if part is not parts[-1]:
                place = place[part]
        place[parts[-1]] = copy.deepcopy(value)
