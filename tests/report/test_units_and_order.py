"""Times in a unit that suits the shortest, settings in an order, and what a step is for."""

from hardneg.recipe.load import load_recipe
from hardneg.recipe.yaml_load import find_recipe
from hardneg.report.content import MeanScore, ReportContent
from hardneg.report.cost_section import SystemCosts, costs_section
from hardneg.report.page import sections


def test_a_time_is_told_in_the_largest_unit_of_which_the_shortest_has_one() -> None:
    costs = {"a": SystemCosts(9000, 1.88, None, None, 90), "b": SystemCosts(7200, 540, None, None, 60)}
    section = costs_section(costs, {"a": 0.5, "b": 0.25}, "mrr")
    assert section is not None
    [table] = section.tables
    heads = [(head.text, head.note) for head in table.columns[2:]]  # type: ignore[union-attr]
    assert heads == [("training", "hours"), ("encoding, indexing", "seconds"), ("all steps", "minutes")]
    assert table.rows == [["a", "0.5000", "2.5", "1.88", "1.5"], ["b", "0.2500", "2", "540", "1"]]


def test_settings_stand_in_order_those_of_all_systems_first() -> None:
    settings = {"STAR: seed": 1, "STAR: batch_size": 16, "passages": 5, "evaluated on": "3 queries"}
    page = ReportContent("t", {"a": {"mrr": MeanScore(0.5)}}, 3, settings=settings)
    [table] = sections(page)[-1].tables
    assert [row[0] for row in table.rows] == ["evaluated on", "passages", "STAR: batch_size", "STAR: seed"]


def test_what_a_step_is_for() -> None:
    batches = load_recipe(find_recipe("star-static"), "demo").stages
    assert "the hard negatives" not in batches["inbatch-neg"].why() and "in the batch" in batches["inbatch-neg"].why()
    found = load_recipe(find_recipe("cort-electra-passage"), "demo").stages["first-stages"]
    assert found.why() == "measure what lies behind the metrics: recall-at-depth"
