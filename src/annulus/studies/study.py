"""Studies: a params.yaml of their own. Every one holds

    scale      the one of `scales` to run at
    seeds      every variant runs once with each
    scales     for each scale, settings on top of the rest

`read` checks the whole file by the study's model. `OwnStudy` has sections of its own beside that, and nothing of the
root's params.yaml; scales.SCALE.SECTION has the scale's changes. `Study` is many variants of the root's, each a short
dict of changes:

    defaults   settings of the whole study: every selector, so that the root's choice moves no study

and its rows. A dict of settings has the root's full keys (`methods.moco.head: mlp`); in a key, ${scale} is the scale.
`MainStudy` is about the main line: a variant is a change of the root's params.yaml, at the root's scale.

A study may run the rows, parts or generators of another one under other settings, on other images say. Studies of one
form share one dvc.yaml, by links, and it reads in each one's params.yaml

    study      the study's own name, that of its folder
    of         the study whose rows, parts or generators these are; its own name: they are its own

`of` another study, the file has only what differs: all keys are the other study's, but for those that stand here. Of
`defaults` and each of `scales`, keys that do not stand here remain the other study's; rows, parts or generators are
those that are named here, with their changes; these also come after what the other study sets at a scale.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

from annotated_types import MinLen

from annulus.config.all_params import AllParams
from annulus.config.file import checked, read_tree
from annulus.config.params import SECTION_OF, Seeds, kinds
from annulus.errors import InputError, nearest, shown
from annulus.settings import Section

Settings = dict[str, Any]
Model = TypeVar("Model", bound=Section)
Value = TypeVar("Value")


@dataclass(frozen=True, kw_only=True)
class OwnParams(Section):
    """Keys of every study's params.yaml."""

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
    """A study that has only its own settings."""

    model: ClassVar[type[OwnParams]] = OwnParams

    def __init__(self, own: Path, scale: str | None = None) -> None:
        """`scale`: in place of the file's.

        Raises:
            InputError: when the file cannot be read, or lacks something that all studies have.
        """
        self.path, self.content = own, content_of(own) | ({} if scale is None else {"scale": scale})
        known = {key: self.content[key] for key in kinds(self.model) if key in self.content}
        self.params = checked(known, str(own), self.model)
        if (chosen := self.params.scale) not in self.params.scales:
            known = f"{', '.join(self.params.scales)}{nearest(chosen, self.params.scales)}"
            raise InputError(f"{own}: scale: {chosen!r} is none of {known}")

    def read(self, model: type[Model]) -> Model:
        """The whole file, of which the model knows every key.

        Raises:
            InputError: for an unknown key, a missing one, or a value that the model refuses.
        """
        return checked(self.content, str(self.path), model)

    def value_at_scale(self, values: Mapping[str, Value], where: str) -> Value:
        """Value for the study's scale in a section with one value per scale.

        Raises:
            InputError: when there is none, or one for a scale that does not exist.
        """
        for scale in values:
            if scale not in self.params.scales:
                known = f"none of {', '.join(self.params.scales)}{nearest(scale, self.params.scales)}"
                raise InputError(f"{self.path}: {where}: {scale!r} is {known}")
        if self.params.scale not in values:
            raise InputError(f"{self.path}: {where}.{self.params.scale}: missing; the study's scale has no value here")
        return values[self.params.scale]

    def section(self, name: str, model: type[Model]) -> Model:
        """The section of a name (`staircases.joint`), with the scale's changes, as a checked model.

        Raises:
            InputError: when there is no such section, or its model refuses something.
        """
        section, scaled = self.content, self.params.scales[self.params.scale]
        for part in name.split("."):
            sections = [key for key, inner in section.items() if isinstance(inner, dict)]
            for key in scaled:
                if key not in sections:  # it would set nothing, and the file's own values would stand
                    where = f"{self.path}: scales.{self.params.scale}: {key!r} is no section"
                    raise InputError(f"{where}{nearest(key, sections)}")
            scaled = self._inner({part: {}} | scaled, part, f"scales.{self.params.scale}.{name}")
            section = self._inner(section, part, name)
        return checked(section | scaled, f"{self.path}: {name}", model)

    def row(self, section: str, name: str) -> Settings:
        """The keys and values of a name in a section of the study's own, of a file that `read` has checked.

        Raises:
            InputError: when there is no such name, with the nearest that there is.
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
    """A study's settings over the root's."""

    model = StudyParams

    def __init__(self, root: Path, own: Path, scale: str | None = None) -> None:
        """`scale`: in place of the study's.

        Raises:
            InputError: when a file cannot be read, or the study lacks something that all studies have.
        """
        super().__init__(own, scale)
        if missing := SECTION_OF.keys() - {"scale"} - self.params.defaults.keys():
            raise InputError(f"{own}: defaults: lacks {', '.join(sorted(missing))}; a study sets every selector")
        self._tree = read_tree(root)
        checked(self._tree, str(root))  # a fault of the root is not the study's
        self._tree["scale"] = scale = self.params.scale
        _set(self._tree, self.params.defaults, scale, f"{own}: defaults")
        _set(self._tree, self.params.scales[scale], scale, f"{own}: scales.{scale}")

    @property
    def dataset(self) -> str:
        """The data set of all variants that do not set another."""
        return (self.params.defaults | self.params.scales[self.params.scale])["dataset"]

    @property
    def measured(self) -> Settings:
        """Measurements of each run beside its accuracies, as keys of a stage's settings."""
        views = self.content.get("closeness_views")
        return {} if views is None else {"closeness_views": views}

    def variant(self, name: str, settings: Mapping[str, Any], seed: int) -> AllParams:
        """The parameters of one run: root, defaults, scale, then these settings.

        Raises:
            InputError: for a key that the root's params.yaml has not, or a value that it refuses.
        """
        return _changed(self._tree | {"seeds": [seed]}, settings, self.params.scale, f"{self.path}: {name}")


class MainStudy(OwnStudy):
    """A study of the main line's encoders: its own settings, and variants of the root's params.yaml."""

    def __init__(self, root: Path, own: Path) -> None:
        """
        Raises:
            InputError: when a file cannot be read, or the root's is refused.
        """
        super().__init__(own)
        self._tree = read_tree(root)
        self.main = checked(self._tree, str(root))

    @property
    def seeds(self) -> list[int]:
        """Those of the study's seeds that the main line has.

        Raises:
            InputError: when it has none of them.
        """
        common = [seed for seed in self.params.seeds if seed in self.main.seeds]
        if not common:
            raise InputError(
                f"{self.path}: seeds: the main line has an encoder of none of {shown(self.params.seeds)}; "
                f"take some of its seeds: {shown(self.main.seeds)}"
            )
        return common

    def variant(self, name: str, settings: Mapping[str, Any]) -> AllParams:
        """The main line's parameters with these settings.

        Raises:
            InputError: for a key that the root's params.yaml has not, or a value that it refuses.
        """
        return _changed(self._tree, settings, self.main.scale, f"{self.path}: {name}")


def content_of(own: Path) -> Settings:
    """The study's content, over that of the study whose rows, parts or generators it has.

    Raises:
        InputError: when a file cannot be read, or names no study.
    """
    content = read_tree(own)
    if not {"study", "of"} & content.keys():
        return content
    for key in ("study", "of"):
        if not isinstance(content.get(key), str):
            fault = f"{shown(content[key])} refused" if key in content else "missing"
            raise InputError(f"{own}: {key}: {fault}; write the name of a study's folder")
    if content["study"] == content["of"]:
        return content
    known = sorted(path.parent.name for path in own.parent.parent.glob("*/params.yaml"))
    if content["of"] not in known:
        near, listed = nearest(content["of"], known), ", ".join(known) or "none"
        raise InputError(f"{own}: of: {shown(content['of'])} is no study{near} (studies: {listed})")
    base = read_tree(own.parent.parent / content["of"] / "params.yaml")
    if isinstance(whose := base.get("of"), str) and whose != content["of"]:
        raise InputError(f"{own}: of: {shown(content['of'])} has the rows or parts of {whose!r}; write that")
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


def _chosen(base: Any, changes: Any, where: str, of: str) -> Any:
    """The names that stand in `changes`, each with its changes; a new one has settings of its own."""
    if not (isinstance(base, dict) and isinstance(changes, dict)):
        return changes
    for name, own in changes.items():
        if name not in base and not own:
            raise InputError(f"{where}: {name!r} is not among those of {of}{nearest(name, base)}")
    return {name: _entry(base.get(name, {}), own) for name, own in changes.items()}


def _entry(base: Any, own: Any) -> Any:
    """A row, part or generator with its changes, which also come after what the other study sets at each scale."""
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
        if parts[0] in ("seeds", "scale"):  # the study's own count
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
