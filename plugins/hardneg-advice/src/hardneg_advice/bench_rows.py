"""The rows of `bench`: statistics of each file of negatives, and the results of training with it."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import stdev
from typing import Any

from hardneg.plugin import ListsOfFile, StoredCollection, errors, measuring, qrels_files, tables
from hardneg_advice.positive_ranks import percent

IN_BATCH, RANDOM = "in-batch", "random"
BASELINES = (IN_BATCH, RANDOM)
METRIC = "mrr@10"
"""The metric for choosing learning rates."""
_TRAIN = "train"
_COUNTS = ("queries", "negatives", "labelled", "withheld", "taken", "seen")
_TESTED = ("difference", "interval", "t_p", "t_holm", "verdict", "seed_p")


def file_faults(path: Path, form: str, collection: StoredCollection) -> dict[str, Any]:
    """Return counts for a file of negatives in the given form, over the training queries, in one pass.

    queries: queries with a negative. negatives: their negatives. labelled: negatives labelled relevant to their own
    query. withheld: positives that the dataset withholds from the queries, such as planted ones. taken: withheld
    positives among the negatives. elsewhere: for each other split, negatives relevant to its queries. seen: negatives
    relevant to queries of any other split. left_out: counts of skipped entries by reason. labelled_share and seen_share
    are shares of the negatives. taken_share is a share of the withheld positives, None if there are none.

    Raises:
        UsageError, DataError: as in `ListsOfFile`, or the file has no negatives for these queries.
    """
    lists, counts = ListsOfFile(path, form, collection, _TRAIN), Counter[str]()
    known, hidden = qrels_files.positives(collection.all_qrels()), qrels_files.positives(collection.withheld())
    relevant = {
        split: frozenset[str]().union(*qrels_files.positives(collection.qrels(split)).values())
        for split in collection.splits
        if split != _TRAIN
    }
    others = {split: documents for split, documents in relevant.items() if documents}
    anywhere = frozenset[str]().union(*others.values())
    for query_id, ranked in lists.listed(collection.queries(_TRAIN).query_ids, {}):
        negatives = set(ranked["file"].doc_ids)
        counts["queries"] += bool(negatives)
        counts["negatives"] += len(negatives)
        counts["labelled"] += len(negatives.intersection(known.get(query_id, ())))
        counts["withheld"] += len(hidden.get(query_id, ()))
        counts["taken"] += len(negatives.intersection(hidden.get(query_id, ())))
        counts.update({f"of {split}": len(negatives & documents) for split, documents in others.items()})
        counts["seen"] += len(negatives & anywhere)
    if not counts["negatives"]:
        raise errors.DataError(f"{path}: no negatives for queries of split {_TRAIN}; check the dataset and the form")
    return {
        **{name: counts[name] for name in _COUNTS},
        "elsewhere": {split: counts[f"of {split}"] for split in others},
        "left_out": dict(sorted(lists.counts.items())),
        "labelled_share": counts["labelled"] / counts["negatives"],
        "seen_share": counts["seen"] / counts["negatives"],
        "taken_share": counts["taken"] / counts["withheld"] if counts["withheld"] else None,
    }


def content_of(
    files: Mapping[str, Mapping[str, Any]],
    metrics: Mapping[str, Any],
    hardness: Mapping[str, Any],
    on_dev: Mapping[str, Mapping[float, float]],
) -> dict[str, Any]:
    """Return `baselines`, the results to compare with by label, and `rows`, the results of each file.

    files: by label, `file`, the result of `file_faults`, and `facts` of the negatives used in training, which exclude
    labelled positives and their copies. metrics: the evaluation's JSON. hardness: the analysis's results by label.
    on_dev: the mean on the dev queries by arm and learning rate.
    """
    means_of = metrics["metrics"]
    shipped = {label: {"metrics": means_of[label]} for label in means_of if label not in on_dev}
    trained = {label: _trained(metrics, label, by_rate) for label, by_rate in on_dev.items()}
    rows = [
        {
            "negatives": label,
            "file": file["file"],
            "trained_with": {name: n for name, n in sorted(file["facts"].items()) if isinstance(n, int)},
            "hardness": hardness[label],
            **trained[label],
            "effect": {baseline: _effect(metrics["over_seeds"], label, baseline) for baseline in BASELINES},
        }
        for label, file in files.items()
    ]
    return {"baselines": {**shipped, **{label: trained[label] for label in BASELINES}}, "rows": rows}


def _trained(metrics: Mapping[str, Any], label: str, by_rate: Mapping[float, float]) -> dict[str, Any]:
    """Return an arm's learning rate, whether it is an end of the grid, and metrics with deviations over seeds."""
    rate = max(by_rate, key=by_rate.__getitem__)
    seeds = [measuring.means(scores) for scores in metrics["per_seed"][label].values()]
    return {
        "learning_rate": rate,
        "at_the_end_of_the_grid": len(by_rate) > 1 and rate in (min(by_rate), max(by_rate)),
        "on_dev": {f"{each:g}": mean for each, mean in by_rate.items()},
        "metrics": metrics["metrics"][label],
        "deviations": {metric: stdev(seed[metric] for seed in seeds) for metric in metrics["metrics"][label]},
    }


def _effect(tests: Sequence[Mapping[str, Any]], label: str, baseline: str) -> dict[str, Any]:
    own = (test for test in tests if (test["system"], test["baseline"]) == (label, baseline))
    return {test["metric"]: {name: test[name] for name in _TESTED} for test in own}


def as_markdown(content: Mapping[str, Any]) -> str:
    """Return bench.md: a sentence per file, tables of the files' statistics and of the training results, and notes."""
    protocol, rows = content["protocol"], content["rows"]
    steps = ", ".join(f"{name} {value}" for name, value in protocol["options"].items())
    rates = ", ".join(f"{rate:g}" for rate in protocol["learning_rates"])
    arms = {**content["baselines"], **{row["negatives"]: row for row in rows}}
    lines = [
        "# Bench for negatives",
        "",
        *map(_answer, rows),
        f"Model {protocol['student']}; {steps}; {protocol['seeds']} seeds; learning rate of each row from {rates} by "
        f"{protocol['chosen_by']}.",
        "",
        *_table([_FILE, *map(_file_cells, rows)]),
        "",
        *_table([_EFFECT, *_effects(arms)]),
        "",
        f"Effects: t-test over queries and seeds, uncorrected 95% interval, Holm-corrected p; equivalent within "
        f"±{protocol['equivalence_margin']:g}. In parentheses: standard deviation over seeds.",
    ]
    return "\n".join([*lines, *_notes(arms)]) + "\n"


def _answer(row: Mapping[str, Any]) -> str:
    """Return a sentence on the result of training with a file."""
    tests = {baseline: row["effect"][baseline][METRIC] for baseline in BASELINES}
    against = (f"{tables.signed(test['difference'])} over {label} ({test['verdict']})" for label, test in tests.items())
    return f"**{row['negatives']}**: {METRIC} {'; '.join(against)}.\n"


_FILE = (
    "negatives",
    "queries",
    "per query",
    "labelled relevant",
    "withheld positives used",
    "relevant in other splits",
    "ranks 1-10",
    "above the positive",
    "distinct",
)
_EFFECT = ("negatives", "rate", "metric", "mean", "over in-batch", "p", "", "over random", "p", "")


def _file_cells(row: Mapping[str, Any]) -> list[str]:
    counts, hard = row["file"], row["hardness"]
    shares = (hard["by_rank"][0], hard["above"], hard["distinct"])
    return [
        row["negatives"],
        f"{counts['queries']:,}",
        f"{counts['negatives'] / counts['queries']:.1f}",
        *map(percent, (counts["labelled_share"], counts["taken_share"], counts["seen_share"], *shares)),
    ]


def _effects(arms: Mapping[str, Mapping[str, Any]]) -> Iterator[list[str]]:
    """Yield a row per metric and arm; the baselines have no tests."""
    for label, each in arms.items():
        rate = f"{each['learning_rate']:g}" if "learning_rate" in each else "–"
        for metric, mean in each["metrics"].items():
            deviation = f" ({tables.number(each['deviations'][metric])})" if "deviations" in each else ""
            cells = []
            for baseline in BASELINES:
                test = each.get("effect", {}).get(baseline, {}).get(metric)
                ends = ", ".join(map(tables.signed, test["interval"])) if test and test["interval"] else "–"
                effect = f"{tables.signed(test['difference'])} [{ends}]" if test else ""
                cells += [effect, tables.p_value(test["t_holm"]), test["verdict"]] if test else [""] * 3
            yield [label, rate, metric, tables.number(mean) + deviation, *cells]


def _notes(arms: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield remarks on the figures."""
    for label, each in arms.items():
        counts = dict(each["file"]["left_out"]) if "file" in each else {}
        counts["queries with a random negative instead"] = each.get("trained_with", {}).get(
            "queries with random negatives", 0
        )
        yield from (f"\n{label}: {reason}: {count:,}." for reason, count in counts.items() if count)
        if each.get("at_the_end_of_the_grid"):
            yield f"\n{label}: the learning rate is the lowest or highest tried; rates beyond it may do better."


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows as Markdown; the first is the head."""
    lines = [f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows]
    return [lines[0], "|" + "---|" * len(rows[0]), *lines[1:]]
