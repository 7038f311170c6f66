"""A finished run made by hand: a recipe, and what its stages made as files in a folder each."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from hardneg_advice.finished_run import FinishedRun
from recipes.recipes import recipe_in, small_tree

from hardneg.datasets.beir import Beir
from hardneg.formats.collection import write_collection
from hardneg.formats.negatives import write_negatives
from hardneg.formats.runs import write_run
from hardneg.records import ArtifactError, Negatives, RankedList
from hardneg.runtime import Silent
from hardneg.store import Artifact, Store


@dataclass(frozen=True)
class HandmadeRun(FinishedRun):
    """Its artifacts lie in `store` of its folder by the names of their stages."""

    def artifact(self, stage: str) -> Artifact:
        path = self.folder / "store" / stage
        if not path.is_dir():
            raise ArtifactError(f"lacks {stage}")
        facts = path / "facts.json"
        return Artifact(stage, "", path, json.loads(facts.read_text()) if facts.exists() else {})


def handmade(
    folder: Path, model: Path, settings: Mapping[str, Any] | None = None, seeds: Sequence[int] = (), **stages: Any
) -> HandmadeRun:
    """A run of the small recipe; settings: of its model. seeds: of its training. stages: others, or changed ones."""
    tree = small_tree(folder / "data", model)
    tree["model"] |= settings or {}
    tree |= {"seeds": list(seeds)} if seeds else {}
    tree["stages"] = {**tree["stages"], **stages}
    return HandmadeRun(folder, recipe_in(folder, tree), {}, Store(folder / "nothing"))


def made(run: HandmadeRun, stage: str) -> Path:
    path = run.folder / "store" / stage
    path.mkdir(parents=True, exist_ok=True)
    return path


def ranked(**scores: float) -> RankedList:
    return RankedList(list(scores), np.array(list(scores.values()), np.float32))


def mine(run: HandmadeRun, lists: Mapping[str, RankedList], rows: Mapping[str, tuple[list[str], list[str]]]) -> None:
    """Writes the run of stage `start-train` and the negatives of stage `static`: positives and negatives by query."""
    write_run(made(run, "start-train") / "run.trec.gz", lists.items())
    negatives = [
        Negatives(query_id, positives, doc_ids, np.full(len(doc_ids), np.nan, np.float32))
        for query_id, (positives, doc_ids) in rows.items()
    ]
    write_negatives(made(run, "static") / "negatives.arrow", negatives)


def collect(
    run: HandmadeRun, documents: Sequence[str], queries: Mapping[str, Sequence[str]], stage: str = "dataset"
) -> None:
    """Writes the collection of a stage: documents d0, d1, ...; queries by split, each with d0 as its positive."""
    data = run.folder / "data" / stage
    (data / "qrels").mkdir(parents=True)
    rows = [{"_id": f"d{number}", "title": "", "text": text} for number, text in enumerate(documents)]
    (data / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    named = {split: {f"{split}{number}": text for number, text in enumerate(texts)} for split, texts in queries.items()}
    lines = [{"_id": name, "text": text} for texts in named.values() for name, text in texts.items()]
    (data / "queries.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    for split, texts in named.items():
        judged = "".join(f"{name}\td0\t1\n" for name in texts)
        (data / "qrels" / f"{split}.tsv").write_text("query-id\tcorpus-id\tscore\n" + judged)
    write_collection(Beir(str(data)).load(), made(run, stage), Silent())
