"""Every preset `paper` has the settings of its paper and program, or docs/methods names the difference.

The pages list differences in tables with the head `| setting | published | here | why |`. A row names the group and the
setting in paper_settings.yaml, the published values, and ours. Other differences are in other tables.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
import yaml
from recipes.recipes import paper_presets

from hardneg.recipes import Recipe
from hardneg.records import PluginSetting

for package in ("hardneg_datasets", "hardneg_multi_vector", "hardneg_sparse"):
    pytest.importorskip(package)
METHODS = Path(__file__).parents[1] / "docs" / "methods"
HEAD = "| setting | published | here | why |"
OF_RECIPES = ("model", "sizes", "segments")
UNTOLD = "not given"


@dataclass(frozen=True)
class Setting:
    """One setting of a group. at: its place in a stage. published: its values in the paper and the program.

    published is empty if neither gives a value. places: where these values are. by_stage: values are by stage.
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
        """The name of the setting in a row of a docs page."""
        return f"{self.group}: {self.name}"

    def wanted(self, stage: str) -> list[Any]:
        """Return the values for a stage from the paper and its program, or else the one chosen here."""
        values = list(self.published.values()) or [self.ours]
        return [value[stage] for value in values] if self.by_stage else values


@dataclass(frozen=True)
class Group:
    """Settings that apply to the same stages of the same recipes."""

    name: str
    patterns: Sequence[str]
    verb: str | None
    settings: Sequence[Setting]

    def has(self, recipe: Recipe, stage: str) -> bool:
        """Return whether the group applies to the given stage, or part of the recipe."""
        verb, path = getattr(recipe.stages.get(stage), "stage", None), f"{recipe.name}/{stage}"
        left_out = any(fnmatchcase(path, pattern[1:]) for pattern in self.patterns if pattern[0] == "!")
        named = not left_out and any(fnmatchcase(path, pattern) for pattern in self.patterns)
        return named and self.verb in (None, verb)

    def is_asked(self, recipes: Mapping[str, Recipe]) -> bool:
        """Return whether any recipe of the group is installed; some need an optional package."""
        names = [pattern.split("/")[0] for pattern in self.patterns if pattern[0] != "!"]
        return any(fnmatchcase(recipe, name) for recipe in recipes for name in names)


def read_groups() -> tuple[Mapping[str, str], list[Group]]:
    """Return the sources by keyword, and all groups."""
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
    """Return the value at a place in a stage of a recipe, including defaults."""
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
    """Return whether two values are equal, numbers up to rounding."""
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    numbers = [value for value in (one, other) if isinstance(value, int | float) and not isinstance(value, bool)]
    return math.isclose(*numbers, rel_tol=1e-6) if len(numbers) == 2 else one == other


def written(value: Any) -> str:
    """Format a value as on a docs page: 60,000, 2e-6, 0.01, none, yes."""
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
    """Return whether a cell contains a value as a whole word."""
    return re.search(rf"(?<![\w.,-]){re.escape(written(value))}(?![\w-]|[.,]\d)", cell.replace("`", "")) is not None


def told(page: str) -> dict[str, tuple[str, str]]:
    """Return, by title, the cells `published` and `here` of the settings that a page lists as different."""
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


SOURCES, GROUPS = read_groups()
SETTINGS = [(group, setting) for group in GROUPS for setting in group.settings]
COMPARED = {"train", "train-queries", "train-refreshed", "train-reranker", "train-reader", "label", "evaluate"}
OURS = {
    "ance-*document/dev-scores": "ANCE measures documents by the TREC queries alone",
    "adore-ablation-passage/parts": "Figure 5 has no numbers",
    "ance-times/cross-encoder": "its time is measured, not its ranking",
    "imported-vectors/scores": "no paper has it",
    "rocketqa-augmentation/by-size": "Figure 6 has no numbers",
    "rocketqa-batches/by-batch": "Figure 4 has no numbers",
    "ance-splade/*": "no paper has the two together",
    "star-splade/scores": "of the paper's metrics those of the other recipes",
    "star-colbert/*": "but for its warm-up, no paper has it",
    "ance-tele-passage/scores": "what is told beside the authors' model",
    "simans-passage/s*": "but for `simans`, the rows of STAR's recipe with another encoder",
    "tas-b/s*": "the rows of STAR's recipe with another encoder",
}
"""Stages that nothing was published about, and why they are there."""


@pytest.fixture(scope="module")
def recipes() -> Mapping[str, Recipe]:
    return paper_presets()


def found_in(group: Group, setting: Setting, recipes: Mapping[str, Recipe]) -> Iterator[tuple[str, str, Any]]:
    """Yield the path, name and value of each stage to which a setting applies."""
    for name, recipe in recipes.items():
        parts = [*recipe.stages, *(part for part in OF_RECIPES if part in recipe.tree)]
        for stage in filter(lambda part: group.has(recipe, part), parts):
            yield f"{name}/{stage}", stage, value_here(recipe, stage, setting.at)


@pytest.mark.parametrize(("group", "setting"), [pytest.param(*each, id=each[1].title) for each in SETTINGS])
def test_a_preset_has_what_was_published_or_its_page_tells_otherwise(group, setting, recipes):
    row = told(setting.page).get(setting.title)
    found = list(found_in(group, setting, recipes))
    assert found or not group.is_asked(recipes), "no stage is like this"
    for path, stage, here in found:
        wanted = setting.wanted(stage)
        if all(same(value, here) for value in wanted) and setting.published:
            assert row is None, f"docs/methods/{setting.page}.md tells of a difference that is none"
            continue
        assert row is not None, f"{path} has {here}, published: {setting.published}"
        assert stands_in(here, row[1]), f"{path} has {here}, {setting.page}.md tells {row[1]}"
        if setting.published:
            assert all(stands_in(value, row[0]) for value in wanted), f"published: {wanted}, told: {row[0]}"
        else:
            assert UNTOLD in row[0] and same(wanted[0], here), f"{path} has {here}"


def test_everything_that_is_trained_or_measured_is_compared(recipes):
    known = [group for group in GROUPS if group.settings]
    left_out = [
        f"{name}/{stage}"
        for name, recipe in recipes.items()
        for stage, spec in recipe.stages.items()
        if spec.stage in COMPARED
        and not any(group.has(recipe, stage) for group in known)
        and not any(fnmatchcase(f"{name}/{stage}", pattern) for pattern in OURS)
    ]
    assert not left_out


def test_places_name_their_source_and_pages_each_title_once():
    places = [place for _, setting in SETTINGS for place in setting.places]
    assert len(places) > 400
    assert not [place for place in places if place.split()[0] not in SOURCES or len(place.split()) < 2]
    titles = [(setting.page, setting.title) for _, setting in SETTINGS]
    assert len(titles) == len(set(titles))
    assert {(page, title) for page, _ in titles for title in told(page)} <= set(titles)
