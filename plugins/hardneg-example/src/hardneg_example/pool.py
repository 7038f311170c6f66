"""The stage `pool`, which writes a table of the unjudged top documents of runs for manual judgement."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Literal

from pydantic import Field

from hardneg.plugin import Query, RankedList, StoredCollection, Table, fields, layout, run_files, stages, tables

POOL = "pool.tsv"
_COLUMNS = ("query_id", "doc_id", "runs", "query", "document")
_COUNTED = ("queries", "to judge", "judged before")
_EXPLAINED = "The top documents of all runs, each once per query. The run folder has the unjudged ones in pools/."
_SEARCHED = fields.Reference(
    ("run",),
    {
        fields.Trait.ADDED_POSITIVES: "use one without `positives`",
        fields.Trait.OWN_QUERIES: "use one that searched a split",
    },
)


class Pool(stages.StageSpec):
    """Pools the unjudged top documents of several runs for manual judgement.

    Source: Harman, Overview of the First Text REtrieval Conference (TREC-1, 1992), on pooling.

    runs: stages whose runs are pooled, by label. split: their split. depth: number of documents per list.
    """

    version = 1
    artifact_type = "pool"
    purpose = "collect unjudged top documents for manual judgement"
    needs_dataset = True
    stage: Literal["pool"]
    runs: Annotated[dict[str, fields.Name], _SEARCHED] = Field(min_length=1)
    split: fields.Name = "test"
    depth: int = Field(default=10, gt=0)

    def problems(self, recipe: stages.RecipeView) -> Iterator[str]:
        """Yield a problem for each run on a different split, since its queries and judgements differ."""
        for label, name in self.runs.items():
            other = getattr(recipe.stages.get(name), "split", self.split)
            if other != self.split:
                yield f"runs.{label}: {name!r} searches split {other}, not {self.split}; use a run of the same split"

    def estimate(self, sizes: stages.Sizes) -> stages.Row:
        """Estimate the table's size at 400 bytes per document, if half of each list after the first is new."""
        count = sizes.queries(self.split)
        lines = count * self.depth * (len(self.runs) + 1) // 2
        return stages.Row(count, "queries", disk=lines * 400)

    def publishes(self, recipe: stages.RecipeView) -> Mapping[str, str]:
        """Publish the table under the name of the stage."""
        return {f"pools/{recipe.name}.tsv": POOL}

    def sections(self, sources: Mapping[str, stages.ArtifactInput]) -> list[tables.Section]:
        """Return a section with the number of documents to judge, one row per pool."""
        rows = [[label, *(f"{source.facts[name]:,}" for name in _COUNTED)] for label, source in sources.items()]
        return [tables.Section("Documents to judge", [Table(("pool", *_COUNTED), rows)], _EXPLAINED)]

    def make(self, context: "stages.StageContext[Pool]") -> stages.Facts:
        """Write a line per unjudged document of each query, sorted by id to hide ranks; return the counts."""
        collection = StoredCollection.open(context.inputs["dataset"].folder)
        paths = {label: source.folder / layout.RUN for label, source in context.inputs_of("runs").items()}
        queries, qrels = collection.queries(self.split), collection.qrels(self.split)
        judged, written = 0, 0
        with (context.folder / POOL).open("w", encoding="utf-8") as file:
            file.write("\t".join(_COLUMNS) + "\n")
            lists = run_files.lists_side_by_side(paths, queries.query_ids)
            for query, (query_id, hits) in zip(queries, lists, strict=True):
                pooled = pool(hits, self.depth)
                unjudged = {doc_id: runs for doc_id, runs in pooled.items() if doc_id not in qrels.get(query_id, {})}
                file.writelines(_lines(query, unjudged, collection))
                judged, written = judged + len(pooled) - len(unjudged), written + len(unjudged)
        return dict(zip(_COUNTED, (len(queries), written, judged), strict=True))


def pool(lists: Mapping[str, RankedList], depth: int) -> dict[str, list[str]]:
    """Return the ids in the first `depth` of any list, in ascending order, each with the labels of these lists."""
    runs_of: dict[str, list[str]] = {}
    for label, ranked in lists.items():
        for doc_id in ranked.doc_ids[:depth]:
            runs_of.setdefault(doc_id, []).append(label)
    return dict(sorted(runs_of.items()))


def _lines(query: Query, unjudged: Mapping[str, Sequence[str]], collection: StoredCollection) -> Iterator[str]:
    corpus = collection.corpus
    documents = corpus.documents_at(corpus.known_rows(list(unjudged), "document", "search this collection again"))
    for document, runs in zip(documents, unjudged.values(), strict=True):
        cells = (query.query_id, document.doc_id, ", ".join(runs), query.text, document.contents)
        yield "\t".join(" ".join(cell.split()) for cell in cells) + "\n"
