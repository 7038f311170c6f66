"""The analysis `lengths`, which compares the lengths of runs' top documents with those of relevant documents."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from hardneg.plugin import Analysis, AnalysisInputs, Runs, Table, errors

_RELEVANT = "(relevant)"
"""The label of the row of relevant documents; no run may have this label."""


class Lengths(Analysis):
    """Show the mean length, in words, of each run's top documents and of the relevant documents.

    Retrievers may prefer short or long documents, regardless of their content.

    Example: hardneg analyze lengths --corpus corpus.jsonl --qrels qrels.txt --run bm25.trec.gz --run dense.trec.gz
    """

    name = "lengths"
    title = "length of documents"
    explained = "Mean lengths in words over all queries; a document counts once for each query that retrieves it."
    asks = ("corpus", "qrels?", "relevance_level")
    drawn = slice(1, 2)

    runs: Runs = Field(min_length=1)
    depth: int = Field(10, gt=0, description="The number of top documents to measure.")

    def measure(self, inputs: AnalysisInputs) -> dict[str, Any]:
        """Return mean words per document, and how many documents have or lack text, for runs and relevant documents."""
        doc_ids_of = {
            label: [doc_id for ranked in run.values() for doc_id in ranked.doc_ids[: self.depth]]
            for label, run in inputs.runs("runs", self.runs).items()
        }
        relevant = [doc_id for doc_ids in inputs.positives().values() for doc_id in doc_ids]
        texts = inputs.texts(list(dict.fromkeys([*relevant, *(each for ids in doc_ids_of.values() for each in ids)])))
        if not texts:
            raise errors.DataError(
                "analysis lengths: none of the documents is in the corpus; use the corpus that was searched"
            )
        words = {doc_id: len(text.split()) for doc_id, text in texts.items()}
        measured = {label: _mean(doc_ids, words) for label, doc_ids in doc_ids_of.items()}
        return {"depth": self.depth, "runs": measured, "relevant": _mean(relevant, words) if relevant else None}

    def table(self, results: Any) -> Table:
        """Return a table with a row per run, and a row for relevant documents if there are judgements."""
        rows = [
            [
                label,
                "–" if row["words"] is None else f"{row['words']:,.1f}",
                f"{row['documents']:,}",
                f"{row['unknown']:,}",
            ]
            for label, row in {**results["runs"], _RELEVANT: results["relevant"]}.items()
            if row
        ]
        return Table(("documents", "words", "documents counted", "without text"), rows)


def _mean(doc_ids: Sequence[str], words: Mapping[str, int]) -> dict[str, Any]:
    known = [words[doc_id] for doc_id in doc_ids if doc_id in words]
    mean = sum(known) / len(known) if known else None
    return {"words": mean, "documents": len(known), "unknown": len(doc_ids) - len(known)}
