"""The rows of a bench, as JSON and as a table."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import stdev
from typing import Any

from hardneg.plugin import means, numbers
from hardneg_advice.file_faults import FileFaults
from hardneg_advice.planted import percent
from hardneg_advice.protocol import BASELINES, METRIC, RANDOM, TRAINED, Protocol

_TESTED = ("difference", "interval", "t_p", "t_holm", "verdict", "seed_p")


@dataclass(frozen=True)
class Measurements:
    """What rows are made of.

    metrics: the evaluation's JSON. hardness: by label, as that analysis has it. faults: by file's label. mined: facts
    of the negatives that were trained with. on_dev: by arm and learning rate the mean on the dev queries.
    """

    metrics: Mapping[str, Any]
    hardness: Mapping[str, Any]
    faults: Mapping[str, FileFaults]
    mined: Mapping[str, Mapping[str, Any]]
    on_dev: Mapping[str, Mapping[float, float]]


def content_of(protocol: Protocol, measured: Measurements) -> dict[str, Any]:
    """`protocol`, what all rows share; `baselines`, the rows beside; `rows`, one a file."""
    evaluated, rates = measured.metrics, [*measured.on_dev[RANDOM]]
    shared = {
        "student": protocol.recipe.model,
        "options": {name: each for name, each in protocol.trained.items() if name in {*TRAINED, *protocol.options}},
        "seeds": protocol.seeds,
        "learning_rates": rates,
        "chosen_by": f"{METRIC} on dev queries, seed 1",
        "equivalence_margin": protocol.equivalence_margin,
        "settings": [*protocol.recipe.settings],
    }
    beside = {label: _trained(label, protocol, measured) for label in BASELINES}
    shipped = {label: {"metrics": evaluated["metrics"][label]} for label in evaluated["metrics"]}
    others = {label: each for label, each in shipped.items() if label not in protocol.stages}
    rows = [_row(label, protocol, measured) for label in protocol.files]
    return {"protocol": shared, "baselines": {**others, **beside}, "rows": rows}


def _row(label: str, protocol: Protocol, measured: Measurements) -> dict[str, Any]:
    """One file's row; `trained_with`: what is left when known positives and their copies are dropped."""
    facts = {name: count for name, count in measured.mined[label].items() if isinstance(count, int)}
    tests = measured.metrics["over_seeds"]
    return {
        "negatives": label,
        "file": measured.faults[label].to_json(),
        "trained_with": dict(sorted(facts.items())),
        "hardness": measured.hardness[label],
        **_trained(label, protocol, measured),
        "effect": {
            baseline: {
                each["metric"]: {name: each[name] for name in _TESTED}
                for each in tests
                if (each["system"], each["baseline"]) == (label, baseline)
            }
            for baseline in BASELINES
        },
    }


def _trained(label: str, protocol: Protocol, measured: Measurements) -> dict[str, Any]:
    """The rate, whether it is the lowest or highest of several, and the metrics with their deviation over seeds."""
    by_rate, by_seed = measured.on_dev[label], measured.metrics["per_seed"][label]
    rate, seeds = protocol.rates[label], {seed: means(scores) for seed, scores in by_seed.items()}
    return {
        "learning_rate": rate,
        "at_the_end_of_the_grid": len(by_rate) > 1 and rate in (min(by_rate), max(by_rate)),
        "on_dev": {f"{each:g}": mean for each, mean in by_rate.items()},
        "metrics": measured.metrics["metrics"][label],
        "deviations": {
            metric: stdev(scores[metric] for scores in seeds.values()) for metric in measured.metrics["metrics"][label]
        },
    }


def as_markdown(content: Mapping[str, Any]) -> str:
    """A table of what the files have, one of what training with them comes to, and what must be known beside."""
    protocol, rows = content["protocol"], content["rows"]
    steps = ", ".join(f"{name} {value}" for name, value in protocol["options"].items())
    rates = ", ".join(f"{rate:g}" for rate in protocol["learning_rates"])
    lines = [
        "# Bench for negatives",
        "",
        *map(_answer, rows),
        f"Student {protocol['student']}; {steps}; {protocol['seeds']} seeds; learning rate of each arm from {rates} by "
        f"{protocol['chosen_by']}.",
        "",
        *_table([_FILE, *map(_file_cells, rows)]),
        "",
        *_table([_EFFECT, *_effects(content)]),
        "",
        f"Effects: t-test over queries and seeds, 95% interval without a correction, p after Holm's; equivalent within "
        f"±{protocol['equivalence_margin']:g}. In brackets the deviation over seeds.",
    ]
    return "\n".join([*lines, *_notes(content)]) + "\n"


def _answer(row: Mapping[str, Any]) -> str:
    """What training with a file comes to, in a sentence."""
    against = []
    for baseline in BASELINES:
        test = row["effect"][baseline].get(METRIC)
        if test:
            against.append(f"{numbers.signed(test['difference'])} over {baseline} ({test['verdict']})")
    return f"**{row['negatives']}**: {METRIC} {'; '.join(against)}.\n"


_FILE = (
    "negatives",
    "queries",
    "a query",
    "labelled relevant",
    "withheld taken",
    "relevant to other splits",
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


def _arms(content: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {**content["baselines"], **{row["negatives"]: row for row in content["rows"]}}


def _effects(content: Mapping[str, Any]) -> Iterator[list[str]]:
    """A row a metric and arm; the baselines have no tests."""
    for label, each in _arms(content).items():
        rate = f"{each['learning_rate']:g}" if "learning_rate" in each else "–"
        for metric, mean in each["metrics"].items():
            deviation = f" ({numbers.number(each['deviations'][metric])})" if "deviations" in each else ""
            cells = []
            for baseline in BASELINES:
                test = each.get("effect", {}).get(baseline, {}).get(metric)
                ends = ", ".join(map(numbers.signed, test["interval"])) if test and test["interval"] else "–"
                effect = f"{numbers.signed(test['difference'])} [{ends}]" if test else ""
                cells += [effect, numbers.p_value(test["t_holm"]), test["verdict"]] if test else [""] * 3
            yield [label, rate, metric, numbers.number(mean) + deviation, *cells]


def _notes(content: Mapping[str, Any]) -> Iterator[str]:
    """What a reader must know beside the figures."""
    for label, each in _arms(content).items():
        counts = dict(each["file"]["left_out"]) if "file" in each else {}
        filled = each.get("trained_with", {}).get("queries with random negatives", 0)
        counts["queries that got a random negative"] = filled
        yield from (f"\n{label}: {reason}: {count:,}." for reason, count in counts.items() if count)
        if each.get("at_the_end_of_the_grid"):
            yield f"\n{label}: its learning rate is at the end of the grid; another may do better."


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as Markdown; the first is the head."""
    lines = [f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows]
    return [lines[0], "|" + "---|" * len(rows[0]), *lines[1:]]
