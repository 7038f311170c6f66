from xml.etree import ElementTree

from hardneg.analysis.figures.gradients import draw_gradients
from hardneg.analysis.gradients import gradients

HISTORY = [
    {"step": step, "loss": 1 / step, "gradient_norms": {"bottom": 0.01 * step, "middle": 1.0, "top": 30.0 / step}}
    for step in range(1, 31)
]


def words(path):
    return [text.text for text in ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text")]


def test_gradients_have_a_panel_a_group_with_the_loss_first(tmp_path):
    found = {"ANCE": gradients(HISTORY), "other": gradients([{"step": 4, "gradient_norms": {"head": 100.0}}])}
    for name in ("g", "again"):
        draw_gradients(found, [tmp_path / f"{name}.svg"])
    titles = [word for word in words(tmp_path / "g.svg") if word.startswith(("training loss", "gradients of"))]
    groups = ("bottom", "middle", "top", "head")
    assert titles == ["training loss", *(f"gradients of the {name} layers" for name in groups)]
    assert (tmp_path / "g.svg").read_bytes() == (tmp_path / "again.svg").read_bytes()
