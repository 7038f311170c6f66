import numpy as np
import pytest

from hardneg.analysis.costs import costs
from hardneg.analysis.error_table import distribution
from hardneg.analysis.figures.ablation import draw_ablation
from hardneg.analysis.figures.costs import draw_costs
from hardneg.analysis.figures.drift import draw_drift
from hardneg.analysis.figures.errors import draw_errors
from hardneg.analysis.figures.matrix import draw_matrix
from hardneg.analysis.figures.projection import draw_projection
from hardneg.analysis.figures.sizes import draw_sizes
from hardneg.analysis.history_curves import drift_curves
from hardneg.analysis.matrix import Matrix
from hardneg.analysis.projection import Neighbourhood
from hardneg.analysis.sizes import sizes
from hardneg.errors import UsageError

HISTORY = [
    {"step": 0, "drift": {"overlap": 1.0, "best_rank": 1, "mrr@10": 0.2}},
    {"step": 5, "loss": 0.3},
    {"step": 10, "drift": {"overlap": 0.25, "best_rank": 40, "mrr@10": float("nan")}},
]


def test_the_curves_of_a_history_are_the_numbers_under_drift():
    assert drift_curves(HISTORY) == {
        "overlap": [(0, 1.0), (10, 0.25)],
        "best_rank": [(0, 1), (10, 40)],
        "mrr@10": [(0, 0.2)],
    }


def both(folder, name):
    return [folder / f"{name}.png", folder / f"{name}.svg"]


def drawings(folder):
    draw_errors({"a $x$ <b>": distribution(np.array([0, 3, 40]))}, both(folder, "errors"))
    draw_drift({"static": drift_curves(HISTORY), "dynamic": {"overlap": [(0, 1.0)]}}, both(folder, "drift"))
    draw_ablation("mrr@10", {"a": 0.3, "b": 0.4}, {"a": (0.2, 0.4), "b": None}, both(folder, "ablation"))
    points = Neighbourhood(np.zeros(2), np.ones((1, 2)), np.arange(6.0).reshape(3, 2))
    draw_projection({"before": points, "after": points}, both(folder, "projection"))
    cells = Matrix("mrr@10", ("24", "48"), ("24", "flat"), ((0.247, None), (0.244, 0.327)), ("trained", "searched"))
    draw_matrix(cells, "heatmap", both(folder, "heatmap"))
    draw_matrix(cells, "lines", both(folder, "lines"))
    draw_sizes(sizes({"flat": (9_216_000, 6000), "pq": (537_000, 6000)}), both(folder, "sizes"))
    draw_costs(costs({"a": {"x": {"seconds": 36.0}}, "b": {"y": {}}}), both(folder, "costs"))


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
    assert ">5.8%<" in (tmp_path / "one" / "sizes.svg").read_text()
    assert ">unknown<" in (tmp_path / "one" / "costs.svg").read_text()


def test_more_than_three_panels_stand_in_rows(tmp_path):
    from matplotlib.image import imread

    draw_errors({str(i): distribution(np.array([0, 3])) for i in range(8)}, [tmp_path / "eight.png"])
    height, width, _ = imread(tmp_path / "eight.png").shape
    assert (width, height) == (3 * 690, 3 * 480)


def test_a_name_without_a_known_ending_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"ends in \.png, \.svg, \.pdf"):
        draw_drift({}, [tmp_path / "x.bmp"])
