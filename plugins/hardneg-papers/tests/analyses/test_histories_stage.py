import json

import pytest

from hardneg.records.errors import DataError
from hardneg.verbs.search import Search
from hardneg.verbs.shared.context import ArtifactInput
from tests.verbs.analyzed import analyze, context, made

NORMS = [{"step": i, "loss": 1.0, "gradient_norms": {"bottom": 0.5 * i, "top": 2.0}} for i in (1, 2, 3)]


def work(folder, spec, histories):
    inputs = {}
    for label, records in histories.items():
        place = folder / label.replace(".", "-")
        place.mkdir()
        (place / "history.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
        inputs[label] = ArtifactInput("model", "", place)
    return context(folder / "out", spec, inputs)


def test_gradients_are_read_from_training_histories_and_shown_in_the_report(tmp_path):
    histories = {"gradients.trainings.a": NORMS, "gradients.trainings.b": NORMS[:1]}
    found, section = made(work(tmp_path, {"gradients": {"trainings": {"a": "x", "b": "y"}}}, histories))
    assert found["a"]["bottom"]["mean"] == 1.0 and found["b"]["bottom"]["curve"] == [[1.0, 0.5]]
    assert section.title == "Behind: loss and gradients"
    assert section.tables[0].rows[1] == ["a", "bottom", "1", "1.5", "3"]


def test_refreshes_are_read_from_training_histories_and_shown_in_the_report(tmp_path):
    refreshed = [{"step": i, "loss": 1.0} for i in (1, 2)] + [{"step": 2, "refresh": 0, "lag": 2}]
    histories = {"refreshes.trainings.a": refreshed, "refreshes.trainings.b": NORMS}
    found, section = made(work(tmp_path, {"refreshes": {"trainings": {"a": "x", "b": "y"}}}, histories))
    assert found["a"]["refreshes"] == [[2, 0]] and found["b"]["refreshes"] == []
    rows = [["a", "2", "1", "2.0", "2.0", "–", "1.0000"], ["b", "3", "0", "–", "–", "–", "1.0000"]]
    assert section.tables[0].rows == rows


def test_a_training_without_norms_is_told(tmp_path):
    asked = {"gradients": {"trainings": {"a": "x"}}}
    with pytest.raises(DataError, match=r"behind\.analysis\.gradients\.trainings\.a: holds no `gradient_norms`"):
        made(work(tmp_path, asked, {"gradients.trainings.a": [{"step": 1, "loss": 1.0}]}))


def test_the_labels_count_in_the_identity_and_the_stages_do_not():
    def identity(**trainings):
        return analyze({"gradients": {"trainings": trainings}}).identity()

    assert identity(a="x") == identity(a="y") != identity(b="x")
    assert identity(a="x", b="x") != identity(b="x", a="x")


def test_operations_are_told_by_the_manifests_of_stages(tmp_path):
    search = Search.model_validate({"stage": "search", "index": "i", "split": "test", "depth": 3})
    source = ArtifactInput("s", "", tmp_path, search, facts={"queries": 4, "seconds": 2.0})
    asked = {"operations": {"stages": {"Search": "s"}}}
    _, section = made(context(tmp_path, asked, {"operations.stages.Search": source}))
    assert section.tables[0].rows == [["Search", "online", "2.0", "4", "500 ms a query"]]
