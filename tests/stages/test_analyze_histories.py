import json

import pytest

from hardneg.errors import DataError
from hardneg.progress import Silent
from hardneg.stages import analyze
from hardneg.stages.analysis_sections import sections
from hardneg.stages.analysis_spec import AnalyzeSpec
from hardneg.stages.context import ArtifactInput, StageContext

NORMS = [{"step": i, "loss": 1.0, "gradient_norms": {"bottom": 0.5 * i, "top": 2.0}} for i in (1, 2, 3)]


def work(folder, spec, histories):
    inputs = {}
    for label, records in histories.items():
        place = folder / label.replace(".", "-")
        place.mkdir()
        (place / "history.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
        inputs[label] = ArtifactInput("model", "", place)
    (folder / "out").mkdir()
    return StageContext(
        "behind", AnalyzeSpec.model_validate({"stage": "analyze", **spec}), folder / "out", inputs, {}, Silent()
    )


def test_gradients_are_read_from_training_histories_and_shown_in_the_report(tmp_path):
    asked = work(tmp_path, {"gradients": {"a": "x", "b": "y"}}, {"gradients.a": NORMS, "gradients.b": NORMS[:1]})
    assert analyze.run(asked) == {"analyses": ["gradients"]}
    found = json.loads((tmp_path / "out" / "gradients.json").read_text())
    assert found["a"]["bottom"]["mean"] == 1.0 and found["b"]["bottom"]["curve"] == [[1.0, 0.5]]
    (section,) = sections("Behind", tmp_path / "out", ["gradients"])
    assert section.title == "Behind: loss and gradients" and section.svg.count("<svg") == 1
    assert section.tables[0].rows[1] == ["a", "bottom", "1", "1.5", "3"]


def test_refreshes_are_read_from_training_histories_and_shown_in_the_report(tmp_path):
    refreshed = [{"step": i, "loss": 1.0} for i in (1, 2)] + [{"step": 2, "refresh": 0, "lag": 2}]
    asked = work(tmp_path, {"refreshes": {"a": "x", "b": "y"}}, {"refreshes.a": refreshed, "refreshes.b": NORMS})
    assert analyze.run(asked) == {"analyses": ["refreshes"]}
    found = json.loads((tmp_path / "out" / "refreshes.json").read_text())
    assert found["a"]["refreshes"] == [[2, 0]] and found["b"]["refreshes"] == []
    (section,) = sections("Behind", tmp_path / "out", ["refreshes"])
    rows = section.tables[0].rows
    assert rows == [["a", "2", "1", "2.0", "2.0", "–", "1.0000"], ["b", "3", "0", "–", "–", "–", "1.0000"]]


def test_a_training_without_norms_is_told(tmp_path):
    asked = work(tmp_path, {"gradients": {"a": "x"}}, {"gradients.a": [{"step": 1, "loss": 1.0}]})
    with pytest.raises(DataError, match=r"behind\.gradients\.a: x noted no norms"):
        analyze.run(asked)


def test_the_labels_of_gradients_count_in_the_identity_and_their_absence_does_not():
    def identity(**spec):
        return AnalyzeSpec.model_validate({"stage": "analyze", "runs": {"r": "run"}, **spec}).identity()

    assert "gradients" not in identity()
    assert identity(gradients={"a": "x"}) == identity(gradients={"a": "y"}) != identity(gradients={"b": "x"})


def test_operations_are_told_by_the_manifests_of_stages(tmp_path):
    from hardneg.stages.search import Search

    search = Search.model_validate({"stage": "search", "index": "i", "split": "test", "depth": 3})
    spec = AnalyzeSpec.model_validate({"stage": "analyze", "operations": {"Search": "s"}})
    inputs = {"operations.Search": ArtifactInput("s", "", tmp_path, search, facts={"queries": 4, "seconds": 2.0})}
    assert analyze.run(StageContext("b", spec, tmp_path, inputs, {}, Silent())) == {"analyses": ["operations"]}
    (section,) = sections("Behind", tmp_path, ["operations"])
    assert section.tables[0].rows == [["Search", "online", "2.0", "4", "500 ms a query"]]
