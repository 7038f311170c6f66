"""The decision of `recommend`: the comparison of training runs, and the rule that guesses without them."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from hardneg.plugin import Table, intervals, significance, tables
from hardneg_advice.positive_ranks import percent, rank_in_words

SHIPPED, LEXICAL = "as shipped", "BM25"
ALONE, FIRST = "in-batch", "first"
TOP = 10
"""The number of top documents of each list that the arm `first` uses as negatives."""
ARMS = {ALONE: "in-batch negatives alone", FIRST: f"topk, {TOP} per query"}
LABELS = {SHIPPED: "the model as shipped", **ARMS, LEXICAL: LEXICAL}
METRIC = "mrr@10"
LEVEL = 0.01
MOST_ABOVE, UNKNOWN = 0.5, (0.45, 0.6)
"""The rule uses top documents if at most this share of them scores above the positive; the range of doubtful shares."""
FEW = 50
"""The minimum number of queries for a reliable choice."""


def trial(arm: str, rate: float) -> str:
    """Return the name of the stage that trains an arm at a learning rate; its row in the results has the same name."""
    return f"{arm} at {rate:g}"


def compare(measured: Mapping[str, Mapping[str, float]], rates: Sequence[float]) -> dict[str, dict[str, Any]]:
    """Return the results by row: the model as shipped, each arm at its best rate, and BM25 if it was measured.

    measured: scores by row and dev query. rates: the rates tried. In a row, `best` is true for the highest mean except
    BM25 (the first, if tied). `p` is the larger p of two paired tests against the best row, Holm-corrected over all
    pairs because the best row is chosen by its scores. `as_good` is true if this p is at least `LEVEL`.
    """
    by_rate = {arm: {rate: fmean(measured[trial(arm, rate)].values()) for rate in rates} for arm in ARMS}
    best_rate = {arm: max(means, key=means.__getitem__) for arm, means in by_rate.items()}
    scores = {SHIPPED: measured[SHIPPED], **{arm: measured[trial(arm, rate)] for arm, rate in best_rate.items()}}
    scores |= {LEXICAL: measured[LEXICAL]} if LEXICAL in measured else {}
    means = {row: fmean(values.values()) for row, values in scores.items()}
    best = max((row for row in scores if row != LEXICAL), key=means.__getitem__)
    p = {best: 1.0}
    for test in significance.compare(scores, METRIC):
        if best in (test.system, test.baseline):
            p[test.baseline if test.system == best else test.system] = max(test.t_holm, test.randomisation_holm)
    rows = {}
    for row, mean in means.items():
        ends = tables.within(intervals.interval_of(scores[row]), 0.0)
        rows[row] = {
            "mean": mean,
            "interval": ends and [ends.low, ends.high],
            "p": p[row],
            "best": row == best,
            "as_good": p[row] >= LEVEL,
            "rate": best_rate.get(row),
            "by_rate": {f"{rate:g}": value for rate, value in by_rate.get(row, {}).items()},
        }
    return rows


def ends_of(row: Mapping[str, Any]) -> str:
    """Return the interval of a row's mean as text in brackets; a dash without an interval."""
    return "–" if row["interval"] is None else tables.bounds(intervals.Interval(*row["interval"]))


def sentences(rows: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield sentences on the significant differences between rows, followed by reasons for doubt."""
    test = f"paired tests over the queries, level {LEVEL:g}, Holm's correction over all pairs"
    best = next(row for row in rows.values() if row["best"])
    good = [LABELS[name] for name, row in rows.items() if row["as_good"] and name != LEXICAL]
    if len(good) == 1:
        yield f"Better than all others ({test}): {good[0]}."
    else:
        yield f"Not significantly different from the highest ({test}): {'; '.join(good)}. Any of these will do."
    if LEXICAL in rows and rows[LEXICAL]["mean"] > best["mean"]:
        p, mean = tables.equation("p", rows[LEXICAL]["p"]), tables.number(rows[LEXICAL]["mean"])
        yield f"BM25, without any training, scores {mean}, higher than each of these ({p})."
    for arm in ARMS:
        rates = [float(rate) for rate in rows[arm]["by_rate"]]
        if len(rates) > 1 and rows[arm]["rate"] in (min(rates), max(rates)):
            rate = f"{rows[arm]['rate']:g}"
            yield f"{ARMS[arm]}: the best rate, {rate}, is the lowest or highest tried; rates beyond it may do better."
    yield "Chosen with one seed on these queries: expect lower scores on other queries."


def table(rows: Mapping[str, Mapping[str, Any]]) -> Table:
    """Return one row per arm at its best rate, and rows for the model as shipped and for BM25."""
    rates = [*rows[ALONE]["by_rate"]]
    columns = ("trained with", f"{METRIC} on dev", "95% interval", "p against the best", "")
    cells = []
    for name, row in rows.items():
        word = "chosen" if row["best"] else "undecided" if row["as_good"] else "worse"
        shown = [LABELS[name], tables.number(row["mean"]), ends_of(row)]
        shown += ["" if row["best"] else tables.p_value(row["p"]), "no training" if name == LEXICAL else word]
        cells.append([*shown, *(tables.number(row["by_rate"][rate]) if row["by_rate"] else "" for rate in rates)])
    return Table((*columns, *(f"at {rate}" for rate in rates)), cells)


def advice(ranks: Mapping[str, Any], documents: int, batch: int) -> tuple[str, str]:
    """Return the arm that the rule chooses without training runs, and the reason.

    ranks: results of analysis `positive-ranks`. documents: size of the corpus. batch: queries per step.
    """
    first, above, reach = f"the first {TOP}", ranks["above"], documents / batch
    in_batch = f"with {batch:,} queries per step, the nearest in-batch negative is at about rank {reach:,.0f}."
    seen = f"{percent(above)} of {first} score above the best positive, so"
    if ranks["within"]["1"] > 0.5:
        alone = "Most queries already rank a positive first, so there is little to gain: train briefly, or not at all"
    elif above is None or above > MOST_ABOVE:
        alone = f"{seen} these are only a few of the documents above it"
    elif reach <= TOP:
        alone = f"With {documents:,} documents, batches already contain what {first} would add"
    else:
        return FIRST, f"{seen} these are what the model confuses with it, and batches seldom contain them: {in_batch}"
    return ALONE, f"{alone}; {in_batch}"


def doubts(ranks: Mapping[str, Any]) -> Iterator[str]:
    """Yield sentences on the limits of the rule."""
    yield (
        "This is a guess: on new collections, the rule was never shown to be better than in-batch negatives alone, and "
        "it was worse on two of eight, by .013 and .020 MRR@10. The learning rate matters more; this chooses none."
    )
    yield f"For recall (R@100), train with {ARMS[ALONE]}: mined negatives were not shown to raise it on any collection."
    low, high = UNKNOWN
    if ranks["above"] is not None and low <= ranks["above"] <= high:
        yield f"If {low:.0%} to {high:.0%} score above the positive, it is unclear which is better: train to find out."


def facts(ranks: Mapping[str, Any], documents: int, batch: int) -> str:
    """Return a sentence with the facts that the rule uses."""
    beyond = int(intervals.distributions().binom.ppf(0.025, len(ranks["ranks"]), 0.5))  # of its exact 95% interval
    ends = f" [{ranks['ranks'][beyond - 1]:,}, {ranks['ranks'][-beyond]:,}]" if beyond else ""
    first, within = f"the first {ranks['depth']}", percent(ranks["within"][str(ranks["depth"])])
    return (
        f"{documents:,} documents, {batch:,} queries per step; best positives of {ranks['queries']:,} queries: median "
        f"rank {rank_in_words(ranks)}{ends}, {within} in {first}; of {first}, {percent(ranks['above'])} score above it."
    )
