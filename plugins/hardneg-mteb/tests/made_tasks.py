"""Small retrieval tasks for mteb, and mteb's own results on them."""

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import mteb
import pyarrow as pa
from datasets import Dataset
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.abstasks.task_metadata import TaskMetadata

Rows = Sequence[Mapping[str, Any]]
_WORDS = ["ant", "bee", "cat", "dog", "elk", "fox", "gnu", "hen", "ibis", "jay", "kite", "lark", "mole", "newt"]


class MadeTask(AbsTaskRetrieval):
    """A task with data from a test, by subset."""

    metadata: TaskMetadata
    made: Mapping[str, Mapping[str, Any]]

    def load_data(self, **_: Any) -> None:
        """Do nothing, because the data is already in memory."""
        self.dataset = {subset: {"test": dict(data)} for subset, data in self.made.items()}
        self.data_loaded = True


def made_task(corpus: Rows, queries: Rows, qrels: Mapping[str, Mapping[str, int]], **told: Any) -> MadeTask:
    """Return a task with the split `test`; told: mteb's metadata, `top_ranked`, and names of equal `subsets`."""
    top_ranked, subsets = told.pop("top_ranked", None), told.pop("subsets", ())
    fields = {"name": "MadeTask", "description": "made in a test", "dataset": {"path": "made/task", "revision": "1"}}
    fields |= {"type": "Retrieval", "category": "t2t", "eval_splits": ["test"], "main_score": "ndcg_at_10"}
    fields["eval_langs"] = {name: ["eng-Latn"] for name in subsets} or ["eng-Latn"]
    texts = {"corpus": corpus, "queries": queries}
    data = {name: Dataset(pa.Table.from_pylist([*rows]), fingerprint=name) for name, rows in texts.items()}
    whole = {**data, "relevant_docs": dict(qrels), "top_ranked": top_ranked}
    made = {name: whole for name in subsets or ["default"]}
    body = {"metadata": TaskMetadata(**{**fields, **told}), "made": made}
    task: MadeTask = type("TaskOfATest", (MadeTask,), body)()
    task.load_data()
    return task


def animals(**told: Any) -> MadeTask:
    """Return 60 documents of random words, half of them titled, and 12 queries with one or two relevant documents."""
    draw = random.Random(5)
    texts = [" ".join(draw.choices(_WORDS, k=draw.randint(3, 40))) for _ in range(60)]
    corpus = [{"id": f"d{n}", "title": "" if n % 2 else draw.choice(_WORDS), "text": t} for n, t in enumerate(texts)]
    queries = [{"id": f"q{n}", "text": " ".join(texts[n].split()[:3])} for n in range(12)]
    qrels = {f"q{n}": {f"d{n}": 1, **({f"d{n + 20}": 2} if n % 3 else {})} for n in range(12)}
    return made_task(corpus, queries, qrels, **told)


def evaluated(model: Any, task: Any, folder: Path) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """Return mteb's metrics of a model on a task with one split, and the scores of documents by query."""
    found = mteb.evaluate(model, task, cache=None, prediction_folder=folder, show_progress_bar=False)
    measured = found.task_results[0].scores["test"][0]
    noted = json.loads((folder / task.prediction_file_name).read_text(encoding="utf-8"))
    return {name: value for name, value in measured.items() if isinstance(value, float)}, noted["default"]["test"]
