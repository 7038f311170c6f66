"""`system:` in a stage that trains: its model's index, its searches, and its rows in the metrics and in the report."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hardneg.recipe.inheritance import is_removed, lay_under, without_removed
from hardneg.records.wording import complaint, suggestion
from hardneg.registry.plugins import no_such_option

SYSTEM = "system"
_No = Literal[False]
_STAGES = "stages"
Rank = tuple[bool, int, int]
"""Whether a preset brought it, the number of its tree, and the position within."""
_TABLES = ("runs", "training")


class RowOrder:
    """Ranks of rows that are written, and of those that systems have.

    trees: what a recipe extends, in the order of laying, and the recipe. preset: the one that is chosen.
    """

    def __init__(self, trees: Iterable[Mapping[str, Any]], preset: str) -> None:
        self._ranks: dict[tuple[str, ...], Rank] = {}
        layers = list(trees)
        presets = [_mapping(_mapping(tree.get("presets")).get(preset)) for tree in layers]
        for late, all_of_them in enumerate((layers, presets)):
            for number, tree in enumerate(all_of_them):
                for path in _paths(tree):
                    self._ranks.setdefault(path, (bool(late), number, len(self._ranks)))

    def of_row(self, written: str) -> Rank:
        """The rank of a row by its path as it is written."""
        return self._ranks.get((written,), (True, len(self._ranks), 0))

    def of_search(self, written: str, end: str) -> Rank:
        """The rank of the row of a system's search: with its system, but late where only a preset has it."""
        system, search = self.of_row(written), self._ranks.get((SYSTEM, end), (False, -1, 0))
        if system[0] or not search[0]:
            return system
        return (True, *(system if system[1] > search[1] else search)[1:])


def _paths(tree: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for name, stage in _mapping(tree.get("stages")).items():
        if not isinstance(stage, Mapping):
            continue
        if SYSTEM in stage:
            yield (f"stages.{name}",)
            yield from _searches(stage[SYSTEM])
        for field in _TABLES:
            yield from ((f"stages.{name}.{field}.{label}",) for label in _mapping(stage.get(field)))
    yield from _searches(_mapping(tree.get("defaults")).get(SYSTEM))


def _searches(system: Any) -> Iterator[tuple[str, ...]]:
    yield from ((SYSTEM, str(end)) for end in _mapping(_mapping(system).get("searches")))


def _mapping(value: Any) -> Mapping[Any, Any]:
    return value if isinstance(value, Mapping) else {}


class _Search(BaseModel):
    """One search of a system: where its row stands and what it is called there; the rest are the search's options."""

    model_config = ConfigDict(extra="allow", frozen=True)

    row: str | _No = "{name}"
    evaluation: str | _No | None = None


class _System(BaseModel):
    """The mapping of a system.

    name: what it is called in tables. index: the index to search, where it has none of its own. encode: options of its
    own index. searches: by what their stages' names end in. evaluation, report: the stages with its rows.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(min_length=1)
    index: str | None = None
    encode: dict[str, Any] = Field(default_factory=dict)
    searches: dict[str, _Search] = Field(default_factory=dict)
    evaluation: str | _No = "scores"
    report: str | _No = "report"


@dataclass(frozen=True)
class _Row:
    """A stage's label in a field of the stage that makes the table; `stated`: the recipe names that stage."""

    owner: str
    end: str
    table: str
    field: str
    label: str
    stage: str
    where: str
    stated: bool


@dataclass
class Systems:
    """The systems of a recipe: `defaults.system`, and their problems.

    order: that of the rows. origins: gets the path as it is written of each stage that a system stands for. problems:
    gets one line each.
    """

    defaults: Any
    order: RowOrder
    origins: dict[tuple[str, ...], str]
    problems: list[str]

    def expand(self, stages: Mapping[str, Any]) -> dict[str, Any]:
        """The stages, and after each with a `system` those that it stands for; what is written is laid over them."""
        expanded: dict[str, Any] = {}
        rows: list[_Row] = []
        for name, stage in stages.items():
            if not isinstance(stage, Mapping) or SYSTEM not in stage:
                expanded.setdefault(name, stage)
                continue
            where = f"{_STAGES}.{name}.{SYSTEM}"
            expanded[name] = {key: value for key, value in stage.items() if key != SYSTEM}
            if system := self._read(stage[SYSTEM], where):
                behind = _behind(name, stage.get("index"), system)
                expanded |= {other: self._laid(other, value, stages, where) for other, value in behind.items()}
                rows += _rows(name, system, where)
        self._add(rows, expanded)
        return expanded

    def _read(self, setting: Any, where: str) -> _System | None:
        """A system with the defaults; None where there is none, or a mistake."""
        if is_removed(setting):
            return None
        own = setting if isinstance(setting, Mapping) else {"name": setting}
        defaults = self.defaults if isinstance(self.defaults, Mapping) else {}
        whole = without_removed(lay_under({"searches": {"test": {}}}, lay_under(defaults, own)))
        if isinstance(searches := whole.get("searches"), Mapping):
            whole["searches"] = {name: searches[name] for name in sorted(searches, key=lambda name: name != "test")}
        try:
            return _System.model_validate(whole)
        except ValidationError as error:
            self.problems += [_problem(item, own, where) for item in error.errors()]
            return None

    def _laid(self, name: str, value: dict[str, Any], stages: Mapping[str, Any], where: str) -> Any:
        """A stage that a system stands for, with what is written of it."""
        if (other := self.origins.get((_STAGES, name), "")).endswith(f".{SYSTEM}"):
            self.problems.append(f"{where}: stands for {name!r}, and so does {other}")
        self.origins[_STAGES, name] = where
        written = stages.get(name, {})
        return lay_under(value, written) if isinstance(written, Mapping) else written

    def _add(self, rows: list[_Row], stages: dict[str, Any]) -> None:
        """Puts the rows among those that are written, all in the order in which the recipe first has them."""
        added: dict[tuple[str, str], dict[str, _Row]] = {}
        for row in rows:
            table = stages.get(row.table)
            if is_removed(stages.get(row.stage)):
                continue
            if not isinstance(table, Mapping):
                if row.stated:
                    hint = suggestion(row.table, stages)
                    self.problems.append(f"{row.where}: no stage {row.table!r}{hint}, for {row.label!r} to stand in")
                continue
            others = added.setdefault((row.table, row.field), {})
            if other := others.get(row.label):
                advice = "give the search a `row` of its own" if row.owner == other.owner else "name one otherwise"
                reason = f"{row.label!r} in {row.table!r} is a row of {other.where} already"
                self.problems.append(f"{row.where}: {reason}; {advice}")
            others[row.label] = row
        for (name, field), own in added.items():
            stages[name] = {**stages[name], field: self._labels(name, field, stages[name].get(field), own)}

    def _labels(self, name: str, field: str, setting: Any, own: Mapping[str, _Row]) -> dict[str, Any]:
        """Those that are written of a table and those of systems, in order."""
        written = setting if isinstance(setting, Mapping) else {}
        labels = lay_under({label: row.stage for label, row in own.items()}, written)

        def rank(label: str) -> Rank:
            if label in written:
                return self.order.of_row(self._written(name, field, label))
            return self.order.of_search(self._written(own[label].owner), own[label].end)

        return {label: labels[label] for label in sorted(labels, key=rank)}

    def _written(self, *path: str) -> str:
        location = (_STAGES, *map(str, path))
        return self.origins.get(location, ".".join(location))


def _behind(name: str, index: Any, system: _System) -> dict[str, dict[str, Any]]:
    """The stages that a system stands for, by name: its index where it has its own, and its searches."""
    stages: dict[str, dict[str, Any]] = {}
    searched = {"index": system.index or f"{name}-index"}
    if system.index is None and isinstance(index, str):
        searched = {"index": index, "model": name}
    elif system.index is None:
        stages[searched["index"]] = {"stage": "encode", "model": name, **system.encode}
    for end, search in system.searches.items():
        stages[f"{name}-{end}"] = {"stage": "search", **searched, **(search.model_extra or {})}
    return stages


def _rows(name: str, system: _System, where: str) -> Iterator[_Row]:
    for end, search in system.searches.items():
        table = system.evaluation if search.evaluation is None else search.evaluation
        stated = search.evaluation is not None or "evaluation" in system.model_fields_set
        if table and search.row:
            yield _Row(
                name, end, table, "runs", search.row.replace("{name}", system.name), f"{name}-{end}", where, stated
            )
    if system.report:
        yield _Row(name, "", system.report, "training", system.name, name, where, "report" in system.model_fields_set)


def _problem(item: Mapping[str, Any], own: Mapping[str, Any], where: str) -> str:
    """A mistake in a system with its path, which is that of the defaults where they have it."""
    location = [str(part) for part in item["loc"] if part not in ("str", "literal[False]")]
    at = where if not location or location[0] in own or item["type"] == "missing" else f"defaults.{SYSTEM}"
    path = ".".join([at, *location])
    if item["type"] == "extra_forbidden":
        known = list(_System.model_fields)
        return f"{path}: {no_such_option(location[-1], known)}"
    return f"{path}: {complaint(item)}"
