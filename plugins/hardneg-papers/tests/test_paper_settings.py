"""Every preset `paper` has what its paper and its program give, or docs/methods tells what it has in its place.

The pages tell it in tables that begin `| setting | published | here | why |`. A row names the group and the setting of
paper_settings.yaml, the published value or values, and ours. Other differences stand in other tables.
"""

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

import pytest
from paper_settings import OF_RECIPES, UNTOLD, Group, Setting, read_groups, same, stands_in, told, value_here
from recipes.recipes import paper_presets

from hardneg.recipes import Recipe

for package in ("hardneg_datasets", "hardneg_multi_vector", "hardneg_sparse"):
    pytest.importorskip(package)
SOURCES, GROUPS = read_groups()
SETTINGS = [(group, setting) for group in GROUPS for setting in group.settings]
PAGES = sorted({setting.page for _, setting in SETTINGS})
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
    """Of each stage that a setting is about: its path, its name, and the value there."""
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


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_tells_of_is_compared(page):
    assert set(told(page)) <= {setting.title for _, setting in SETTINGS if setting.page == page}


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


def test_places_name_their_source():
    places = [place for _, setting in SETTINGS for place in setting.places]
    assert len(places) > 400
    assert not [place for place in places if place.split()[0] not in SOURCES or len(place.split()) < 2]


def test_titles_are_named_once():
    titles = [(setting.page, setting.title) for _, setting in SETTINGS]
    assert len(titles) == len(set(titles))
