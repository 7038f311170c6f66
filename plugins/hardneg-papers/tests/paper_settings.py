"""What the papers give (paper_settings.yaml), what a recipe comes to, and what docs/methods tells of the difference."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml

from hardneg.recipes import Recipe
from hardneg.records import PluginSetting

METHODS = Path(__file__).parents[1] / "docs" / "methods"
HEAD = "| setting | published | here | why |"
OF_RECIPES = ("model", "sizes", "segments")
UNTOLD = "not given"


@dataclass(frozen=True)
class Setting:
    """One number or name of a group: where it stands in a stage, and what was published with its places.

    published is empty where neither the paper nor the program says it. by_stage: it has a value of each stage.
    """

    group: str
    name: str
    page: str
    at: str | list[str]
    published: Mapping[str, Any]
    places: Sequence[str]
    by_stage: bool
    ours: Any

    @property
    def title(self) -> str:
        """How a row of the page names it."""
        return f"{self.group}: {self.name}"

    def wanted(self, stage: str) -> list[Any]:
        """What was published for a stage: by the paper, by the program; what was settled here where neither says it."""
        values = list(self.published.values()) or [self.ours]
        return [value[stage] for value in values] if self.by_stage else values


@dataclass(frozen=True)
class Group:
    """Settings of the same stages of some recipes."""

    name: str
    patterns: Sequence[str]
    verb: str | None
    settings: Sequence[Setting]

    def has(self, recipe: Recipe, stage: str) -> bool:
        """Whether it is about this stage, or this part of the whole recipe."""
        verb, path = getattr(recipe.stages.get(stage), "stage", None), f"{recipe.name}/{stage}"
        left_out = any(fnmatchcase(path, pattern[1:]) for pattern in self.patterns if pattern[0] == "!")
        named = not left_out and any(fnmatchcase(path, pattern) for pattern in self.patterns)
        return named and self.verb in (None, verb)

    def is_asked(self, recipes: Mapping[str, Recipe]) -> bool:
        """Whether any of its recipes is there: some need a package that may not be installed."""
        names = [pattern.split("/")[0] for pattern in self.patterns if pattern[0] != "!"]
        return any(fnmatchcase(recipe, name) for recipe in recipes for name in names)


def read_groups() -> tuple[Mapping[str, str], list[Group]]:
    """The sources by their word, and all groups."""
    read = yaml.safe_load(Path(__file__).with_name("paper_settings.yaml").read_text(encoding="utf-8"))
    groups = [Group(raw["group"], raw["stages"], raw.get("verb"), list(_settings(raw))) for raw in read["groups"]]
    return read["sources"], groups


def _settings(raw: Mapping[str, Any]) -> Iterator[Setting]:
    for name, given in raw["settings"].items():
        given = dict(given)
        at, by_stage, (ours, *_) = given.pop("at"), given.pop("of", "") == "stages", given.pop("ours", [None])
        published = {kind: value for kind, (value, _) in given.items()}
        places = [place for _, place in given.values()]
        yield Setting(raw["group"], name, raw["page"], at, published, places, by_stage, ours)


def value_here(recipe: Recipe, stage: str, at: str | list[str]) -> Any:
    """What a recipe comes to in one place, defaults included."""
    if isinstance(at, list):
        return [value_here(recipe, stage, each) for each in at]
    if at in COMPUTED:
        return COMPUTED[at](recipe, stage)
    path, _, more = at.partition(" + ")
    first, *rest = path.split(".")
    if stage in OF_RECIPES:
        found: Any = recipe.tree[stage] if stage == "segments" else getattr(recipe, stage)
        rest = [first, *rest]
    else:
        found = getattr(recipe.stages[stage], first)
        if (plugin := recipe.plugins.get((stage, first))) is not None:
            if not rest:
                return found if isinstance(found, str) else found.name
            options = {} if isinstance(found, str) else found.options
            found = options if rest[0] in options else plugin
    for name in rest:
        found = found.options if isinstance(found, PluginSetting) else found
        found = found[name] if isinstance(found, Mapping) else getattr(found, name)
    return found + int(more) if more else found


def _queries(recipe: Recipe, stage: str) -> int:
    options = recipe.stages[stage].options
    return options.batch_size * options.accumulate


def _pairs(recipe: Recipe, stage: str) -> int:
    return _queries(recipe, stage) * (1 + recipe.stages[stage].options.negatives_per_query)


def _warm_up(recipe: Recipe, stage: str) -> float:
    options = recipe.stages[stage].options
    return options.warmup_ratio if options.warmup_steps is None else options.warmup_steps


def _candidates(recipe: Recipe, stage: str) -> int:
    return recipe.stages[recipe.stages[stage].candidates].depth


COMPUTED = {"queries": _queries, "pairs": _pairs, "warm-up": _warm_up, "candidates": _candidates}


def same(one: Any, other: Any) -> bool:
    """Whether two values are one; numbers to rounding."""
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    numbers = [value for value in (one, other) if isinstance(value, int | float) and not isinstance(value, bool)]
    return math.isclose(*numbers, rel_tol=1e-6) if len(numbers) == 2 else one == other


def written(value: Any) -> str:
    """A value as a page has it: 60,000, 2e-6, 0.01, none, yes."""
    if isinstance(value, list | tuple):
        return ", ".join(map(written, value))
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    if isinstance(value, int | float):
        if value and abs(value) < 1e-3:
            return re.sub(r"e-0*", "e-", f"{value:e}").replace(".000000", "").rstrip("0")
        return f"{int(value):,}" if value == int(value) else f"{value:g}"
    return str(value)


def stands_in(value: Any, cell: str) -> bool:
    """Whether a cell of a page names a value as a whole word."""
    return re.search(rf"(?<![\w.,-]){re.escape(written(value))}(?![\w-]|[.,]\d)", cell.replace("`", "")) is not None


def told(page: str) -> dict[str, tuple[str, str]]:
    """What a page tells of settings that differ: by their titles, the cells `published` and `here`."""
    lines = iter((METHODS / f"{page}.md").read_text(encoding="utf-8").splitlines())
    rows = dict[str, tuple[str, str]]()
    for line in lines:
        if line == HEAD:
            next(lines)
            while (row := next(lines, "")).startswith("|"):
                title, published, here, _ = (cell.strip() for cell in row.strip("|").split("|"))
                assert title not in rows, f"{page}.md tells twice of {title}"
                rows[title] = published, here
    return rows
