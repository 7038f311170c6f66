"""A toy collection, and a program that trains on it in sentence-transformers' trainer: one or several processes.

python trainer_toy.py OUTPUT COLLECTION MODEL {"every": 3, "kill": 5, ...}
"""

import json
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hardneg.formats.collection import StoredCollection, write_collection
from hardneg.records import Document, Judgement, Query
from hardneg.runtime import distributed, progress

WORDS = (
    "apple", "bread", "cheese", "date", "egg", "fig", "grape", "honey", "ice", "jam", "kale", "lemon", "mint", "nut",
    "olive", "pear", "quince", "rice", "salt", "tea",
)  # fmt: skip


def _text(number: int, steps: Sequence[int]) -> str:
    return " ".join(WORDS[(number * step + number // len(WORDS)) % len(WORDS)] for step in steps)


def write_toy(folder: Path, documents: int = 60, queries: int = 24) -> Path:
    """A folder as BEIR has it: query i is relevant to document i, whose first words it has."""
    (folder / "qrels").mkdir(parents=True)
    texts = ({"_id": f"d{i}", "title": "", "text": _text(i, (1, 3, 7, 11))} for i in range(documents))
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in texts))
    asked = ({"_id": f"q{i}", "text": _text(i, (1, 3))} for i in range(queries))
    (folder / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in asked))
    lines = "".join(f"q{i}\td{i}\t1\n" for i in range(queries))
    (folder / "qrels" / "train.tsv").write_text(f"query-id\tcorpus-id\tscore\n{lines}")
    return folder


def write_toy_collection(
    folder: Path, documents: int, queries: int, qrels: Sequence[tuple[str, str]]
) -> StoredCollection:
    """A stored collection with these positives."""

    class Given:
        def documents(self) -> Iterator[Document]:
            return (Document(f"d{i}", f"text {i}") for i in range(documents))

        def splits(self) -> Sequence[str]:
            return ("train",)

        def queries(self, split: str) -> Iterator[Query]:
            return (Query(f"q{i}", f"query {i}") for i in range(queries))

        def qrels(self, split: str) -> Iterator[Judgement]:
            return (Judgement(query_id, doc_id, 1) for query_id, doc_id in qrels)

        def notes(self) -> Sequence[str]:
            return ()

    write_collection(Given(), folder, progress.Silent())
    return StoredCollection.open(folder)


def train(output: Path, data: Path, model: Path, **told: Any) -> dict[str, Any]:
    """Trains; what is told: of the negatives, `arguments`, `resume`, and `kill`, a step.

    With a run a reranker is trained, which mines from its scores. Returns the texts of each batch, the log, and the
    trainer.
    """
    import sentence_transformers as st
    from sentence_transformers.cross_encoder.losses import BinaryCrossEntropyLoss
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    from hardneg.trainer import RefreshedNegatives

    kind = "CrossEncoder" if "run" in told else "SentenceTransformer"
    given = {"max_steps": 8, "save_steps": 2, **told.pop("arguments", {})}
    resume, kill = told.pop("resume", None), told.pop("kill", None)
    usual = {"per_device_train_batch_size": 4, "learning_rate": 1e-2, "logging_steps": 1, "report_to": "none"}
    quiet = {"use_cpu": True, "disable_tqdm": True, "batch_sampler": "no_duplicates"}
    arguments = getattr(st, f"{kind}TrainingArguments")(output_dir=str(output), **{**usual, **quiet, **given})
    network = getattr(st, kind)(str(model), device="cpu", **({"num_labels": 1} if "run" in told else {}))
    loss = (BinaryCrossEntropyLoss if "run" in told else MultipleNegativesRankingLoss)(network)
    negatives = RefreshedNegatives(
        f"beir:{data}", arguments, **{"negatives": 2, "depth": 20, "miner": {"name": "topk", "depth": 6}, **told}
    )
    data_given = {"args": arguments, "train_dataset": negatives.dataset}
    trainer = getattr(st, f"{kind}Trainer")(model=network, loss=loss, **data_given)
    negatives.attach(trainer)
    seen = noted(trainer, network.tokenizer)
    if kill is not None:
        killed_as_it_publishes(kill)
    trainer.train(resume_from_checkpoint=resume)
    return {"seen": seen, "log": trainer.state.log_history, "trainer": trainer, "negatives": negatives}


def noted(trainer: Any, tokenizer: Any) -> list[dict[str, list[str]]]:
    """The texts of each batch, by column, as the trainer trains on them."""
    seen, step = list[dict[str, list[str]]](), trainer.training_step

    def training_step(model: Any, inputs: Any, *others: Any) -> Any:
        columns = {name.removesuffix("_input_ids"): ids for name, ids in inputs.items() if name.endswith("_input_ids")}
        texts = {name: tokenizer.batch_decode(ids, skip_special_tokens=True) for name, ids in columns.items()}
        seen.append({name: [text.replace(" ##", "") for text in column] for name, column in texts.items()})
        return step(model, inputs, *others)

    trainer.training_step = training_step
    return seen


def killed_as_it_publishes(number: int) -> None:
    """Has this process killed when all of a refresh is mined and its folder is not there yet."""
    from hardneg.training.checkpoint import Refresh, RefreshFolder

    publish = RefreshFolder.publish

    def publishing(place: RefreshFolder, refresh: Refresh, oldest: int | None = None) -> None:
        if refresh.number == number:
            os.kill(os.getpid(), signal.SIGKILL)
        publish(place, refresh, oldest)

    RefreshFolder.publish = publishing  # type: ignore[method-assign]


def losses(found: Mapping[str, Any]) -> list[float]:
    """Those of each step, as the log has them."""
    return [record["loss"] for record in found["log"] if "loss" in record]


def main(output: str, data: str, model: str, told: str) -> None:
    """Trains, and writes what was seen where a test reads it."""
    found = train(Path(output), Path(data), Path(model), **json.loads(told))
    path = Path(output) / f"seen-{os.environ.get('RANK', '0')}.json"
    path.write_text(json.dumps({"seen": found["seen"], "log": found["log"]}))
    distributed.leave()


if __name__ == "__main__":
    main(*sys.argv[1:])
