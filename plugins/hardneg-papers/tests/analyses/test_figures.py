import pytest
from hardneg_papers.analyses.costs import Costs, IndexSizes, costs
from hardneg_papers.analyses.errors import Errors, distribution
from hardneg_papers.analyses.evaluations import Ablation, Matrix
from hardneg_papers.analyses.projection import Projection
from hardneg_papers.analyses.trainings import Drift, curves_of

from hardneg.records.errors import UsageError

HISTORY = [
    {"step": 0, "drift": {"overlap": 1.0, "best_rank": 1, "mrr@10": 0.2}},
    {"step": 5, "loss": 0.3},
    {"step": 10, "drift": {"overlap": 0.25, "best_rank": 40, "mrr@10": float("nan")}},
]


def test_the_curves_of_a_history_are_the_numbers_under_drift():
    assert curves_of(HISTORY, lambda row: row.get("drift")) == {
        "overlap": [(0, 1.0), (10, 0.25)],
        "best_rank": [(0, 1), (10, 40)],
        "mrr@10": [(0, 0.2)],
    }


def both(folder, name):
    return [folder / f"{name}.png", folder / f"{name}.svg"]


def spread(*errors):
    return {"distribution": distribution(errors)}


def drawings(folder):
    Errors.model_construct().draw({"a $x$ <b>": spread(0, 3, 40)}, both(folder, "errors"))
    Drift.model_construct().draw(
        {"static": curves_of(HISTORY, lambda row: row.get("drift")), "dynamic": {"overlap": [(0, 1.0)]}},
        both(folder, "drift"),
    )
    bars = {"metric": "mrr@10", "means": {"a": 0.3, "b": 0.4}, "intervals": {"a": [0.2, 0.4], "b": None}}
    Ablation.model_construct().draw(bars, both(folder, "ablation"))
    points = {"query": [0, 0], "documents": {"relevant": [[1, 1]], "negatives": [[0, 1], [2, 3], [4, 5]]}}
    query = {"query_id": "q", "text": "t", "note": "", "points": {"before": points, "after": points}}
    Projection.model_construct().draw([query], both(folder, "projection"))
    cells = {"metric": "mrr@10", "rows": ["24", "48"], "columns": ["24", "flat"], "axes": ["trained", "searched"]}
    cells["values"] = [[0.247, None], [0.244, 0.327]]
    for form in ("heatmap", "lines"):
        Matrix.model_construct(figure=form).draw(cells, both(folder, form))
    sizes = [{"index": "flat", "bytes": 9_216_000, "bytes_per_vector": 1536, "ratio": 1.0}]
    IndexSizes.model_construct().draw(sizes, both(folder, "sizes"))
    Costs.model_construct().draw(costs({"a": {"x": {"seconds": 36.0}}, "b": {"y": {}}}), both(folder, "costs"))


def test_every_figure_is_written_as_png_and_svg_with_labels_and_equal_numbers_give_equal_bytes(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        drawings(tmp_path / name)
    files = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert len(files) == 16
    for name in files:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    text = (tmp_path / "one" / "errors.svg").read_text()
    assert "pairwise errors of a query" in text and "share (%)" in text and "a $x$ &lt;b&gt;" in text
    assert "training step" in (tmp_path / "one" / "drift.svg").read_text()
    heatmap = (tmp_path / "one" / "heatmap.svg").read_text()
    assert all(words in heatmap for words in (">0.2470<", ">–<", ">trained<", ">searched<", ">flat<"))
    assert ">9.22<" in (tmp_path / "one" / "sizes.svg").read_text()
    assert ">0.00 without y<" in (tmp_path / "one" / "costs.svg").read_text()


def test_more_than_three_panels_stand_in_rows(tmp_path):
    from matplotlib.image import imread

    Errors.model_construct().draw({str(i): spread(0, 3) for i in range(8)}, [tmp_path / "eight.png"])
    height, width, _ = imread(tmp_path / "eight.png").shape
    assert (width, height) == (3 * 690, 3 * 480)


def test_a_name_without_a_known_ending_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"ends in \.png, \.svg, \.pdf"):
        Drift.model_construct().draw({}, [tmp_path / "x.bmp"])
