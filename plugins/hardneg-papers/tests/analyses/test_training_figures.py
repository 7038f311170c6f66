from xml.etree import ElementTree

from hardneg_papers.analyses.trainings import Gradients, Refreshes, gradients, refreshes

HISTORY = [
    {"step": step, "loss": 1 / step, "gradient_norms": {"bottom": 0.01 * step, "middle": 1.0, "top": 30.0 / step}}
    for step in range(1, 31)
]


def words(path):
    return [text.text for text in ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text")]


def test_gradients_have_a_panel_a_group_with_the_loss_first(tmp_path):
    found = {"ANCE": gradients(HISTORY), "other": gradients([{"step": 4, "gradient_norms": {"head": 100.0}}])}
    for name in ("g", "again"):
        Gradients.model_construct().draw(found, [tmp_path / f"{name}.svg"])
    titles = [word for word in words(tmp_path / "g.svg") if word.startswith(("training loss", "gradients of"))]
    groups = ("the bottom layers", "the middle layers", "the top layers", "head")
    assert titles == ["training loss", *(f"gradients of {name}" for name in groups)]
    assert (tmp_path / "g.svg").read_bytes() == (tmp_path / "again.svg").read_bytes()


def test_refreshes_have_a_panel_for_the_loss_and_one_for_a_dev_metric(tmp_path):
    dev = [{"step": step, "dev": {"mrr@10": step / 40, "ndcg@10": 0.1}} for step in (10, 20, 30)]
    marked = [{**record, "refresh": record["step"] // 8, "lag": 3} for record in HISTORY]
    found = {"every 8": refreshes(marked + dev), "never": refreshes(HISTORY)}
    Refreshes.model_construct().draw(found, [tmp_path / "r.svg"])
    titles = [word for word in words(tmp_path / "r.svg") if word.endswith("refreshes")]
    assert titles == ["training loss; bars: refreshes", "mrr@10 on the dev set; bars: refreshes"]
