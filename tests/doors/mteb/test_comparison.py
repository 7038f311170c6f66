"""Tasks of several subsets, means of tasks, and what a task leaves out of its lists."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from made_tasks import animals, made_task
from mteb.abstasks.aggregate_task_metadata import AggregateTaskMetadata
from mteb.abstasks.aggregated_task import AbsTaskAggregate
from tiny import tiny_static

from hardneg.doors.mteb.model import TaskSearcher, mteb_model
from hardneg.doors.mteb.task_comparison import Compared, TaskComparison
from hardneg.doors.mteb.task_runs import read_predictions, task_run, word
from hardneg.doors.mteb.tasks import load_data
from hardneg.records.errors import DataError

Compare = Callable[..., TaskComparison]


@pytest.fixture
def compare(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Compare:
    """Comparisons of one model in one output."""
    folder = tiny_static(tmp_path_factory.mktemp("static") / "model")

    def begun(**given: Any) -> TaskComparison:
        row = Compared("model", mteb_model(folder, store=tmp_path / "store", **given))
        made = TaskComparison(tmp_path / "out", [row], ["ndcg@10"])
        made.begin()
        return made

    return begun


def indexing(monkeypatch: pytest.MonkeyPatch, last: str = "") -> list[str]:
    """The subsets that are indexed from now on; at the last one the evaluation fails."""
    index, seen = TaskSearcher.index, list[str]()

    def noted(self: TaskSearcher, corpus: Any, *, hf_subset: str, **given: Any) -> None:
        seen.append(hf_subset)
        if hf_subset == last:
            raise KeyboardInterrupt
        index(self, corpus, hf_subset=hf_subset, **given)

    monkeypatch.setattr(TaskSearcher, "index", noted)
    return seen


def test_subsets_that_are_done_are_left_out(compare: Compare, monkeypatch: pytest.MonkeyPatch) -> None:
    task = animals(subsets=("one", "two"))
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        indexing(patched, last="two")
        list(compare().measured(task))
    seen = indexing(monkeypatch)
    comparison = compare()
    assert [place for place, _ in comparison.measured(task)] == ["MadeTask/one/test", "MadeTask/two/test"]
    assert seen == ["two"]
    assert (comparison.output / "MadeTask" / "two" / "test" / "model.trec.gz").is_file()


def test_settings_are_kept_apart(compare: Compare, monkeypatch: pytest.MonkeyPatch) -> None:
    (_, plain), (_, shorter) = (
        next(compare(settings=settings).measured(animals())) for settings in ([], ["model.document_length=4"])
    )
    assert plain.results != shorter.results
    seen = indexing(monkeypatch)
    assert next(compare().measured(animals()))[1].results == plain.results
    assert seen == []


ABOUT = {"name": "MeanOfTwo", "description": "made in a test", "type": "Retrieval", "eval_splits": ["test"]}
ABOUT["main_score"] = "ndcg_at_10"


class Mean(AbsTaskAggregate):
    """The mean of two tasks."""

    metadata = AggregateTaskMetadata(**ABOUT, tasks=[animals(name="First"), animals(name="Second")])


def test_a_mean_is_written_beside_its_parts(compare: Compare) -> None:
    comparison, mean = compare(), Mean()
    places = [place for task in (*mean.metadata.tasks, mean) for place, _ in comparison.measured(task)]
    assert places == ["First/test", "Second/test"]
    (folder,) = (comparison.output / "results").glob("*/*")
    first, both = (json.loads((folder / f"{name}.json").read_text())["scores"] for name in ("First", "MeanOfTwo"))
    assert both["test"][0]["main_score"] == pytest.approx(first["test"][0]["main_score"])


def test_lists_are_as_the_task_measures_them() -> None:
    task = made_task([{"id": "a", "text": "x"}], [{"id": "q", "text": "x"}], {"q": {"a": 1}})
    lists = {"q": {"q": 9.0, "a": 1.0, "b": 2.0, "c": 2.0}}
    assert list(task_run(task, lists)["q"].doc_ids) == ["q", "c", "b", "a"]
    task.ignore_identical_ids = True
    ranked = task_run(task, lists)["q"]
    assert list(ranked.doc_ids) == ["c", "b", "a"]
    assert ranked.scores[0] == 2 > ranked.scores[1] > 1.999
    task.skip_first_result = True
    assert list(task_run(task, lists)["q"].doc_ids) == ["b", "a"]


def test_ids_of_several_words_become_one() -> None:
    assert [word(text) for text in ("d1", "a b", "", "50%")] == ["d1", "a%20b", "%", "50%"]


def test_what_is_no_file_of_predictions_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        read_predictions(tmp_path / "none.json")
    (tmp_path / "cut.json").write_text('{"default": {')
    with pytest.raises(DataError, match=r"cut\.json: not a file of mteb's predictions"):
        read_predictions(tmp_path / "cut.json")


def test_data_that_cannot_be_had_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    task = animals()

    def fails() -> None:
        raise ConnectionError("no hub\nat all")

    monkeypatch.setattr(task, "load_data", fails)
    with pytest.raises(DataError, match=r"task MadeTask: its data \(made/task\) cannot be loaded \(ConnectionError"):
        load_data(task)


def _made(**changed: Any) -> Any:
    corpus = [{"id": f"d{n}", "title": "", "text": f"ant bee {n}"} for n in range(3)]
    given = {"corpus": corpus, "queries": [{"id": "q0", "text": "ant"}], "qrels": {"q0": {"d0": 1}}, **changed}
    rest = {name: value for name, value in given.items() if name not in ("corpus", "queries", "qrels")}
    return made_task(given["corpus"], given["queries"], given["qrels"], **rest)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"eval_splits": ["test", "dev"]}, "dev: no such split, there is test"),
        ({"corpus": []}, "test: corpus: has no rows with an id"),
        ({"queries": []}, "test: queries: has no rows with an id"),
        ({"qrels": {}}, "test: none of its queries is judged"),
        ({"qrels": {"q9": {"d0": 1}, "q0": {}}}, "test: none of its queries is judged"),
        ({"qrels": {"q0": {"d0": 1.5}}}, "test: query 'q0' has grade 1.5, which is no whole number"),
        ({"queries": [{"id": "q0", "text": None}]}, "test: queries: 'q0' has no text"),
        ({"corpus": [{"id": "d0", "title": None, "text": "x"}]}, "test: corpus: 'd0' has no title"),
        ({"corpus": [{"id": 0, "title": "", "text": "x"}]}, "test: corpus: ids are int64, not texts"),
    ],
)
def test_data_that_cannot_be_evaluated_are_told(compare: Compare, changed: dict[str, Any], told: str) -> None:
    with pytest.raises(DataError) as found:
        list(compare().measured(_made(**changed)))
    assert str(found.value) == f"task MadeTask cannot be evaluated: {told}"


def test_all_that_is_wrong_with_a_task_is_told_at_once(compare: Compare) -> None:
    with pytest.raises(DataError, match=r"test: corpus: has no rows.*; test: queries: 'q0' has no text; dev: no such"):
        list(compare().measured(_made(corpus=[], queries=[{"id": "q0", "text": None}], eval_splits=["test", "dev"])))
