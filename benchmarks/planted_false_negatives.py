"""Which filters find positives that were hidden among the negatives, at the same share of true negatives kept.

    pip install "hardneg[static]" ./plugins/hardneg-judge
    python benchmarks/part_of_beir.py insuranceqa part --passages 5000 --train 700 --dev 100 --test 100
    python benchmarks/planted_false_negatives.py part [--figure planted.svg]

The dataset hides positives of queries that keep one. Candidates are the first 10 passages that the model as it is
shipped finds and that are not known to be relevant. Every filter gives each candidate a number, and removes those with
the largest. So all are compared where they keep the same share of the candidates that are no hidden positives. The
intervals are of 1,000 draws of queries. planted_false_negatives.yaml trains the judges, on the labels that are left.
"""

import argparse
import gzip
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hardneg.encoders.open.resolved import load_encoder
from hardneg.encoders.protocol import TextEncoder
from hardneg.encoders.spec import ModelSpec
from hardneg.formats.collection import StoredCollection
from hardneg.formats.negatives import read_negatives
from hardneg.formats.qrels import positives
from hardneg.formats.runs import Run, read_run
from hardneg.recipes import Options, Watcher, execute, load_recipe, make_plan
from hardneg.records import MODEL_FOLDER, NEGATIVES, RUN
from hardneg.report.figure import figure, lines, plain_axes
from hardneg.store import Artifact, Store

RECIPE = Path(__file__).with_suffix(".yaml")
KEPT = (0.95, 0.9, 0.8, 0.7, 0.5)
DRAWS = 1000
Values = NDArray[np.float64]


@dataclass(frozen=True)
class Planted:
    """C candidates: the query of each, int64 [C], its document, and whether it is a hidden positive, bool [C].

    known: the one positive that the filters know of each query. listed: how many known positives stand among the first
    10 of their query's list.
    """

    query_ids: Sequence[str]
    query: NDArray[np.int64]
    doc_ids: Sequence[str]
    hidden: NDArray[np.bool_]
    known: Sequence[Sequence[str]]
    listed: int

    @classmethod
    def of(cls, made: Mapping[str, Artifact]) -> "Planted":
        collection = StoredCollection.open(made["dataset"].path)
        items = list(read_negatives(made["candidates"].path / NEGATIVES))
        hidden, run = positives(collection.withheld()), read_run(made["found"].path / RUN)
        query = np.repeat(np.arange(len(items)), [len(item.negatives) for item in items])
        told = [doc_id in hidden.get(item.query_id, ()) for item in items for doc_id in item.negatives]
        listed = sum(doc_id in run[item.query_id].doc_ids[:10] for item in items for doc_id in item.positives)
        doc_ids = [doc_id for item in items for doc_id in item.negatives]
        known = [list(item.positives) for item in items]
        return cls([item.query_id for item in items], query, doc_ids, np.array(told), known, listed)


def against(scores: Values, of_positive: Values) -> Values:
    """How far a candidate is above its query's positive: what `pos-margin` and GIST with a margin compare."""
    return scores - of_positive


def in_proportion(scores: Values, of_positive: Values) -> Values:
    """The same as a share of the positive's score: what `pos-percent` and GIST with a relative margin compare."""
    return (scores - of_positive) / np.abs(of_positive)


def by_model(planted: Planted, made: Mapping[str, Artifact]) -> tuple[Values, Values]:
    """The scores of the model that was searched with, of the candidates and of their queries' lowest known positives.

    float64 [C] both.
    """
    run = read_run(made["found"].path / RUN)
    lists = [dict(zip(run[name].doc_ids, run[name].scores.tolist(), strict=True)) for name in planted.query_ids]
    own = [lists[query][doc_id] for query, doc_id in zip(planted.query, planted.doc_ids, strict=True)]
    return np.array(own), lowest(planted, run)


def by_judge(planted: Planted, made: Mapping[str, Artifact]) -> tuple[Values, Values]:
    """The same of the cross-encoder, as stage `judge` has asked it."""
    text = gzip.decompress((made["judged"].path / "judgements.tsv.gz").read_bytes()).decode()
    rows = [line.split("\t") for line in text.splitlines()[1:]]
    said = {(row[0], row[1]): float(row[3]) for row in rows}
    pairs = zip(planted.query, planted.doc_ids, strict=True)
    own = np.array([said[planted.query_ids[query], doc_id] for query, doc_id in pairs])
    return own, lowest(planted, read_run(made["scores"].path / RUN))


def lowest(planted: Planted, run: Run) -> Values:
    """The lowest score that a run gives a known positive of each candidate's query, float64 [C]."""
    lists = [dict(zip(run[name].doc_ids, run[name].scores.tolist(), strict=True)) for name in planted.query_ids]
    found = [min(scored[doc_id] for doc_id in known) for scored, known in zip(lists, planted.known, strict=True)]
    return np.array(found)[planted.query]


def by_guide(planted: Planted, made: Mapping[str, Artifact], guide: TextEncoder) -> tuple[Values, Values]:
    """The same by the cosines of a guide."""
    collection = StoredCollection.open(made["dataset"].path)
    queries = collection.queries("train")
    texts = dict(zip(queries.query_ids, queries.texts, strict=True))
    wanted = sorted({*planted.doc_ids, *(doc_id for known in planted.known for doc_id in known)})
    place = {doc_id: row for row, doc_id in enumerate(wanted)}
    contents = collection.corpus.contents(collection.corpus.rows(wanted))
    documents = np.asarray(guide.encode(contents, "document"), np.float64)
    asked = np.asarray(guide.encode([texts[name] for name in planted.query_ids], "query"), np.float64)
    own = np.einsum("cd,cd->c", asked[planted.query], documents[[place[doc_id] for doc_id in planted.doc_ids]])
    known = [[place[doc_id] for doc_id in doc_ids] for doc_ids in planted.known]
    of_positive = [float((documents[rows] @ asked[query]).min()) for query, rows in enumerate(known)]
    return own, np.array(of_positive)[planted.query]


def recall_at(values: Values, hidden: NDArray[np.bool_], kept: float, weights: Values) -> float:
    """The share of the hidden ones that goes with the largest values, while that share of the others is kept.

    weights: float64 [C], how often each candidate counts.
    """
    order = np.argsort(-values, kind="stable")
    others = np.cumsum(np.where(hidden[order], 0.0, weights[order]))
    found = np.where(hidden[order], weights[order], 0.0)
    removed = np.searchsorted(others, (1 - kept) * others[-1] + 1e-9, "right")
    return float(found[:removed].sum() / found.sum())


def interval(values: Values, planted: Planted, kept: float) -> tuple[float, float]:
    """2.5 and 97.5 % of the recall over draws of queries."""
    draws = np.random.default_rng(0)
    count = len(planted.query_ids)
    found = []
    for _ in range(DRAWS):
        drawn = np.bincount(draws.integers(0, count, count), minlength=count).astype(np.float64)
        found.append(recall_at(values, planted.hidden, kept, drawn[planted.query]))
    return float(np.percentile(found, 2.5)), float(np.percentile(found, 97.5))


def filters(planted: Planted, made: Mapping[str, Artifact]) -> dict[str, tuple[Values, float]]:
    """By the filter's name the values of all candidates, and above which it removes as it is usually set."""
    own, crossed = by_model(planted, made), by_judge(planted, made)
    static = load_encoder(ModelSpec("packaged:wordllama", query_length=128, document_length=128), "cpu")
    guides = {"static": static, "trained": load_encoder(made["guide"].path / MODEL_FOLDER, "cpu", "auto")}
    found = {
        "`pos-percent` .95, own scores": (in_proportion(*own), -0.05),
        "denoising .1 and judge, cross-encoder": (crossed[0], 0.1),
        "`pos-percent` .95, cross-encoder": (in_proportion(*crossed), -0.05),
    }
    for name, guide in guides.items():
        scores = by_guide(planted, made, guide)
        found[f"GIST, margin 0, {name} guide"] = (against(*scores), 0.0)
        found[f"GIST, relative .05, {name} guide"] = (in_proportion(*scores), -0.05)
    return found


def shown(share: float) -> str:
    return f"{share:.3f}".removeprefix("0")


def main() -> None:
    parser = argparse.ArgumentParser(description="Filters of negatives against hidden positives.")
    parser.add_argument("source", type=Path)
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--store", type=Path, default=Path("store"))
    options = parser.parse_args()
    plan = make_plan(load_recipe(RECIPE, settings=[f"dataset.source={options.source}"]))
    made = execute(plan, Store(options.store), Options(device="cpu"), Watcher()).artifacts
    planted = Planted.of(made)
    hidden, ones = planted.hidden, np.ones(len(planted.hidden))
    print(f"{len(planted.query_ids)} queries, {len(hidden)} candidates, {hidden.sum()} of them hidden positives\n")
    print("| false negatives among the first 10 | known | hidden |\n|---|---|---|")
    print(f"| no mask | {planted.listed} | {hidden.sum()} |\n| known positives only | 0 | {hidden.sum()} |\n")
    heads = "".join(f" at {share:g} kept |" for share in KEPT)
    print(f"| filter | as set: kept | removed |{heads}\n|---|---|---|{'---|' * len(KEPT)}")
    curves = {}
    for name, (values, level) in filters(planted, made).items():
        kept, right = (values[~hidden] <= level).mean(), (values[hidden] > level).mean()
        cells = [shown(recall_at(values, hidden, share, ones)) for share in KEPT]
        low, high = interval(values, planted, 0.8)
        cells[KEPT.index(0.8)] += f" ({shown(low)} to {shown(high)})"
        print(f"| {name} | {shown(kept)} | {shown(right)} | {' | '.join(cells)} |")
        grid = np.arange(0.4, 1.0, 0.05)
        points = [(100 * share, 100 * recall_at(values, hidden, share, ones)) for share in grid]
        curves[name.replace("`", "")] = points
    if options.figure:
        with figure([options.figure], 1, height=4.4, width=6.4) as (axes,):
            lines(axes, {**curves, "by chance": [(40, 60), (100, 0)]})
            plain_axes(axes, "hidden positives", "true negatives kept (%)", "hidden positives removed (%)")


if __name__ == "__main__":
    main()
