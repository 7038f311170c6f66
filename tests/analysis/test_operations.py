from xml.etree import ElementTree

from hardneg.analysis.figures.operations import draw_operations
from hardneg.analysis.operations import operation_table, operations

STAGES = {
    "encoding": ("index", {"passages": 2000, "seconds": 9.0}),
    "search": ("run", {"queries": 50, "seconds": 1.0, "depth": 10}),
    "training": (
        "model",
        {"steps": 10, "seconds": 40.0, "refreshes made": 4, "seconds of inference: encode": 8.0, "mean lag": 2.0},
    ),
    "mining": ("negatives", {"queries": 50}),
    "empty": ("run", {"queries": 0, "seconds": 1.0}),
}


def found():
    return [operation.to_json() for operation in operations(STAGES)]


def test_the_time_of_a_stage_is_divided_by_what_it_went_through():
    assert [(row["operation"], row["online"], row["milliseconds"], row["unit"]) for row in found()] == [
        ("encoding", False, 4.5, "document"),
        ("search", True, 20.0, "query"),
        ("training", False, 4000.0, "step"),
        ("training: encode", False, 2000.0, "refresh"),
        ("mining", False, None, "query"),
        ("empty", True, None, "query"),
    ]


def test_the_table_and_the_figure_name_the_unit(tmp_path):
    _, rows = operation_table(found())
    assert rows[0] == ["encoding", "offline", "9.0", "2,000", "4.5 ms a document"]
    assert rows[2][-1] == "4 s a step" and rows[4][2:] == ["unknown", "50", "unknown"]
    draw_operations(found(), [tmp_path / "o.svg"])
    texts = [text.text for text in ElementTree.parse(tmp_path / "o.svg").iter("{http://www.w3.org/2000/svg}text")]
    assert {"20 ms", "a query", "training: encode"} <= set(texts) and "mining" not in texts
