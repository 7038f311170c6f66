"""Two-dimensional projections of queries, relevant documents and negatives, by one model or several."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import shorten
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, model_validator

import hardneg.plugin as hn
from hardneg_papers.analyses.shared import Encoders, Indexes, Metric, check_model_labels, shortened

_ROUNDING = 1e-9
_RELEVANT = "relevant"
_SIGNS = ("x", "s", "^", "D", "v", "o")

Vectors = NDArray[np.floating]


class Projection(hn.Analysis):
    """Project queries and surrounding documents to two dimensions, before and after training.

    Shows the relevant documents of a query, and the negatives that the first index ranks highest. Instead of the
    latter, --run shows the top of each run, and --mined shows training negatives; then, one --model is enough. One
    --index with two --model shows the training of a query encoder, which leaves document vectors unchanged.

    Example: hardneg analyze projection --query ID --qrels Q --queries FILE --index FOLDER --model A --model B
    """

    name = "projection"
    version = 2
    title = "projection"
    explained = (
        "t-SNE: which points are close is meaningful; distances and directions are not. For each group: the number of "
        "documents, and the mean of their inner products with the query before the projection."
    )
    paper = "STAR/ADORE, Figure 6; ANCE, Figures 1, 6 and 7"
    asks = ("qrels", "queries", "seed", "relevance_level", "device")
    extra = "analysis"

    query: Annotated[
        tuple[hn.fields.Name, ...], BeforeValidator(lambda each: (each,) if isinstance(each, str) else each)
    ] = Field((), description="The id of a query to show; by default, the first with relevant documents.")
    indexes: Indexes = Field(
        min_length=1, max_length=2, description="A dense index folder from before training; a second one from after."
    )
    models: Encoders = Field(default_factory=dict, description="The query encoder before training; a second one after.")
    negatives: Annotated[int, hn.fields.Option("count")] = Field(
        100, gt=0, description="Number of top documents per group."
    )
    runs: hn.Runs = Field(
        default_factory=dict, description="A TREC run, or LABEL=RUN, to show its top documents as a group."
    )
    mined: Annotated[
        dict[hn.fields.Name, hn.fields.Name], hn.fields.Reference(("negatives",)), hn.fields.Option("mined")
    ] = Field(default_factory=dict, description="A negatives.arrow, or LABEL=FILE, to show its negatives as a group.")
    wins: int = Field(
        0, ge=0, description="Number of queries to show where the first run beats the second, and vice versa."
    )
    metric: Metric = Field("ndcg@10", description="The metric by which a run wins.")

    @model_validator(mode="after")
    def _fits(self) -> "Projection":
        labels = [_RELEVANT, *self.runs, *self.mined]
        check_model_labels(self.indexes, self.models)
        if len(self.indexes) < 2 and not (self.runs or self.mined):
            raise ValueError("indexes needs two entries, before and after, unless runs or mined is given")
        if twice := sorted({label for label in labels if labels.count(label) > 1}):
            raise ValueError(f"{', '.join(twice)}: used for two groups of documents; use different labels")
        if self.wins and (len(self.runs) < 2 or self.query):
            raise ValueError("wins needs two runs and selects the queries itself; give runs, and remove query")
        return self

    @classmethod
    def arranged(cls, values: Mapping[str, Any], types: Mapping[str, str]) -> Mapping[str, Any]:
        """Label indexes and models `before` and `after`; with runs or mined negatives, one of each is enough."""
        indexes, models = (list(values.get(name, {}).values()) for name in ("indexes", "models"))
        if len(models) == len(indexes) == 1 and (values.get("runs") or values.get("mined")):
            return {**values, "models": dict(zip(values["indexes"], models, strict=True))}
        if len(models) != 2 or len(indexes) not in (1, 2):
            message = (
                "give {models} twice, before and after, and {indexes} once or twice, or one each with {runs} or {mined}"
            )
            raise hn.errors.UsageError(f"analyze projection: {message}", "models", "indexes", "runs", "mined")
        sides = ("before", "after")
        named = {"indexes": dict(zip(sides, [*indexes, indexes[0]], strict=False))}
        return {**values, **named, "models": dict(zip(sides, models, strict=True))}

    def measure(self, inputs: hn.AnalysisInputs) -> list[dict[str, Any]]:
        """Return, for each query, its text, a note if it is won or lost, its documents, and points [x, y] by index.

        Raises:
            UsageError: a query is unknown or has no positive in the first index, or a document is not in every index.
        """
        notes = self._won_and_lost(inputs) if self.wins else dict.fromkeys(self.query, "")
        texts = self._texts(inputs, list(notes) or self._first(inputs))
        systems = {label: inputs.system(f"indexes.{label}", f"models.{label}") for label in self.indexes}
        encoded = [system.encode(list(texts.values())) for system in systems.values()]
        groups, results = self._groups(inputs, texts), []
        for position, (query_id, text) in enumerate(texts.items()):
            vectors = [each[position] for each in encoded]
            documents = self._documents(inputs, next(iter(systems.values())), vectors[0], query_id)
            documents |= {group: lists.get(query_id, []) for group, lists in groups.items()}
            named = {"query_id": query_id, "text": text, "note": notes.get(query_id, ""), "documents": documents}
            results.append({**named, "points": _panels(systems, vectors, documents, inputs.seed)})
        return results

    def _won_and_lost(self, inputs: hn.AnalysisInputs) -> dict[str, str]:
        """Return the queries with the largest wins of the first run, then its largest losses, each with a note.

        Source: ANCE (Xiong et al., ICLR 2021), figures 6 and 7.
        """
        runs = [inputs.run(f"runs.{label}") for label in list(self.runs)[:2]]
        scored = [hn.measuring.evaluate(run, inputs.qrels(), [self.metric], inputs.relevance_level) for run in runs]
        ours, theirs = (next(iter(each.values())) for each in scored)
        by = {query_id: value - theirs[query_id] for query_id, value in ours.items()}
        order = sorted(by, key=lambda query_id: (-by[query_id], query_id))
        won = [query_id for query_id in order if by[query_id] > _ROUNDING][: self.wins]
        lost = [query_id for query_id in reversed(order) if by[query_id] < -_ROUNDING][: self.wins]
        if not won and not lost:
            raise hn.errors.UsageError(
                f"{inputs.location('wins')}: the runs have equal {self.metric}; choose queries with `query`"
            )
        return {
            each: f"{'won' if by[each] > 0 else 'lost'}, {self.metric} {ours[each]:.3f} against {theirs[each]:.3f}"
            for each in [*won, *lost]
        }

    def _first(self, inputs: hn.AnalysisInputs) -> list[str]:
        """Return the first query with relevant documents and, if there are other groups, documents in the first one."""
        known, lists = inputs.positives(), list(inputs.queries(inputs.split))
        if self.mined:
            file = hn.negatives_files.read_negatives(inputs.negatives(f"mined.{next(iter(self.mined))}"))
            listed = {query_id for query_id, count in zip(file.query_ids, file.counts, strict=True) if count}
            lists = [query_id for query_id in lists if query_id in listed]
        elif self.runs:
            lists = [query_id for query_id, _ in inputs.stream(f"runs.{next(iter(self.runs))}")]
        return [query_id for query_id in lists if known.get(query_id)][:1]

    def _texts(self, inputs: hn.AnalysisInputs, query_ids: Sequence[str]) -> dict[str, str]:
        queries, known = inputs.queries(inputs.split), inputs.positives()
        lacks = {True: "has no positive", False: "is unknown"}
        wrong = [query_id for query_id in query_ids if query_id not in queries or not known.get(query_id)]
        problems = [f"query {each!r} {lacks[each in queries]}" for each in wrong]
        if problems or not query_ids:
            problems = problems or ["no query has a positive and documents in the first group"]
            raise hn.errors.UsageError(f"{inputs.location('query')}: {'; '.join(problems)}; choose another")
        return {query_id: queries[query_id] for query_id in query_ids}

    def _groups(self, inputs: hn.AnalysisInputs, wanted: Mapping[str, str]) -> dict[str, dict[str, list[str]]]:
        """Return the top documents of each run and file of negatives, by label and query."""
        results = {}
        for label in self.runs:
            run = inputs.stream(f"runs.{label}")
            results[label] = {name: list(each.doc_ids[: self.negatives]) for name, each in run if name in wanted}
        for label in self.mined:
            file = hn.negatives_files.read_negatives(inputs.negatives(f"mined.{label}"))
            rows = [(name, row) for row, name in enumerate(file.query_ids) if name in wanted]
            results[label] = {name: list(file[row].negatives[: self.negatives]) for name, row in rows}
        return results

    def _documents(
        self, inputs: hn.AnalysisInputs, first: hn.System, query: Vectors, query_id: str
    ) -> dict[str, list[str]]:
        """Return the relevant documents in the first index and, without other groups, its top other documents."""
        positives = inputs.positives()[query_id]
        aside = inputs.copies([*positives, *inputs.relevant().get(query_id, ())])
        own, known = (rows[rows >= 0] for rows in map(first.rows, (positives, aside)))
        if not len(own):
            message = f"the first index has no positive of query {query_id!r}; choose another"
            raise hn.errors.UsageError(f"{inputs.location('query')}: {message}")
        relevant = {_RELEVANT: [first.doc_ids[int(row)] for row in own]}
        if self.runs or self.mined:
            return relevant
        ranked = first.searcher.search(query[None], self.negatives + len(known)).rows[0]
        others = ranked[(ranked >= 0) & ~np.isin(ranked, known)][: self.negatives]
        return {**relevant, "negatives": [first.doc_ids[int(row)] for row in others]}

    def table(self, results: Any) -> hn.Table:
        """Return a row per panel: the query's position, and the size and mean score of each group of documents."""
        groups = list(results[0]["documents"])
        rows = []
        for each in results:
            for panel, points in each["points"].items():
                around = [
                    "–" if points["scores"][group] is None else f"{len(documents)} at {points['scores'][group]:.3f}"
                    for group, documents in points["documents"].items()
                ]
                place = [f"{x:.2f}" for x in points["query"]]
                rows.append([f"{each['query_id']} {shortened(each['text'])}", panel, *place, *around])
        return hn.Table(("query", "panel", "query x", "query y", *groups), rows, 2)

    def explain(self, results: Any) -> str:
        notes = "; ".join(f"{each['query_id']} ({each['note']})" for each in results if each["note"])
        return self.explained + (f" Queries: {notes}." if notes else "")

    def draw(self, results: Any, paths: Sequence[Path]) -> None:
        """Draw a panel per query and model; panels of a query share axes. Discs are relevant, the star is the query.

        A document in several groups has the markers of all of them.
        """
        panels = [(each, label) for each in results for label in each["points"]]
        several, first = len(results) > 1, dict[str, Any]()
        with hn.figures.figure(paths, len(panels), height=4.2) as drawn:
            for axes, (each, label) in zip(drawn, panels, strict=True):
                _scatter(axes, each["points"][label])
                words = [shorten(each["text"], 46, placeholder=" …"), each["note"]]
                words = words if len(each["points"]) == 1 else [*words, label] if several else [label]
                title = "\n".join(filter(None, words))
                hn.figures.plain_axes(axes, title, "t-SNE, first coordinate", "t-SNE, second coordinate")
                if (own := first.setdefault(each["query_id"], axes)) is not axes:
                    axes.sharex(own)
                    axes.sharey(own)
                    own.autoscale()
            drawn[-1].legend(frameon=False, fontsize=8, ncols=3, loc="upper left", bbox_to_anchor=(0, -0.14))


def project(panels: Sequence[Vectors], seed: int) -> list[NDArray[np.float64]]:
    """Project the vectors of several panels into one plane with t-SNE; a vector shared by panels is one point.

    Args:
        panels: float [n, d], all of the same dimension d.
        seed: the seed of t-SNE; the same seed and vectors give the same points.

    Returns:
        float64 [n, 2] for each panel; with fewer than four distinct vectors, their first two coordinates.

    Raises:
        UsageError: dimensions differ.
        MissingDependency: scikit-learn is not installed.

    Source: STAR/ADORE (Zhan et al., SIGIR 2021), figure 6; ANCE (Xiong et al., ICLR 2021), figure 1.
    """
    if len(sizes := dict.fromkeys(panel.shape[1] for panel in panels)) > 1:
        raise hn.errors.UsageError(
            f"indexes have vectors of dimension {' and '.join(map(str, sizes))}; use indexes with the same dimension"
        )
    vectors, position = np.unique(np.concatenate(panels).astype(np.float64), axis=0, return_inverse=True)
    try:
        from sklearn.manifold import TSNE
    except ImportError as error:
        message = f'the projection needs scikit-learn ({error}); pip install "hardneg[analysis]"'
        raise hn.errors.MissingDependency(message) from error
    if len(vectors) < 4:
        points = np.ascontiguousarray(np.pad(vectors, [(0, 0), (0, 2)])[:, :2])
    else:
        perplexity = min(30.0, (len(vectors) - 1) / 3)
        tsne = TSNE(perplexity=perplexity, init="pca", random_state=seed, learning_rate="auto")
        points = np.asarray(tsne.fit_transform(vectors), np.float64)
    return np.split(points[position.reshape(-1)], np.cumsum([len(panel) for panel in panels])[:-1])


def _panels(
    systems: Mapping[str, hn.System], queries: Sequence[Vectors], documents: Mapping[str, Sequence[str]], seed: int
) -> dict[str, dict[str, Any]]:
    """Return, for each system, the points of the query and of each group of documents, and mean scores by group."""
    doc_ids = list(dict.fromkeys(doc_id for ids in documents.values() for doc_id in ids))
    groups = {group: [doc_ids.index(doc_id) for doc_id in ids] for group, ids in documents.items()}
    around = []
    for label, system in systems.items():
        rows = system.rows(doc_ids)
        if lacking := [doc_id for doc_id, row in zip(doc_ids, rows, strict=True) if row < 0]:
            few = f"missing {len(lacking)} of the documents, such as {lacking[0]}"
            raise hn.errors.UsageError(f"indexes.{label}: {few}; use indexes and runs of the same corpus")
        around.append(system.searcher.vectors(rows))
    planes = project([np.concatenate([q[None], each]) for q, each in zip(queries, around, strict=True)], seed)
    panels = {}
    for label, query, each, plane in zip(systems, queries, around, planes, strict=True):
        scores = each @ query
        panels[label] = {
            "query": plane[0].tolist(),
            "documents": {group: plane[1:][own].tolist() for group, own in groups.items()},
            "scores": {group: float(scores[own].mean()) if own else None for group, own in groups.items()},
        }
    return panels


def _scatter(axes: Any, points: Mapping[str, Any]) -> None:
    groups = {group: np.array(own).reshape(-1, 2).T for group, own in points["documents"].items()}
    axes.scatter(*groups.pop(_RELEVANT), marker="o", s=70, color=hn.figures.COLOURS[0], label=_RELEVANT)
    colours = ("#8a8f94", *hn.figures.COLOURS[2:])
    for position, (group, own) in enumerate(groups.items()):
        colour, sign = colours[position % len(colours)], _SIGNS[position % len(_SIGNS)]
        fill = {"color": colour} if sign == "x" else {"facecolors": "none", "edgecolors": colour}
        axes.scatter(*own, marker=sign, s=24, label=group, linewidths=0.9, **fill)
    query = {"color": hn.figures.COLOURS[1], "edgecolors": "black", "label": "query", "zorder": 3}
    axes.scatter(*points["query"], marker="*", s=150, **query)
