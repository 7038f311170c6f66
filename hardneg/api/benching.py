"""`hardneg.bench`: files of negatives judged by one protocol."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import stdev
from typing import TYPE_CHECKING, Any

from hardneg.analysis.base import percent
from hardneg.api.bench_recipe import BASELINES, METRIC, OTHER_RATES, REPORT, SCORES, STATIC_RATES, BenchRecipe
from hardneg.api.content_store import keep_result, make_dataset
from hardneg.api.results import StoredResult
from hardneg.evaluation.metrics import means
from hardneg.evaluation.metrics_json import read_metrics
from hardneg.formats.collection import StoredCollection
from hardneg.mining.choosing import FILLED
from hardneg.mining.lists_of_file import FileFaults, file_faults
from hardneg.records.layout import DATASET, METRICS, QUERY_TABLE, REPORT_HTML, REPORT_MARKDOWN
from hardneg.records.named_plugins import HARDNESS, RANDOM
from hardneg.report.numbers import number, p_value, signed
from hardneg.store.atomic_write import link_file, replace_text

if TYPE_CHECKING:
    from hardneg.api.workplace import Workplace
    from hardneg.encoders.spec import ModelSpec
    from hardneg.recipe.execute import Outcome
    from hardneg.recipe.plan import Plan


BENCH, TABLE, RECIPE = "bench.json", "bench.md", "recipe.yaml"
_SPLIT = "train"
_VERSION = 1


@dataclass(frozen=True)
class BenchResult(StoredResult):
    """Files of negatives, judged: `path` is a folder with `bench.json`, `bench.md`, a report and its recipe."""

    @property
    def rows(self) -> list[dict[str, Any]]:
        """What each file came to."""
        rows: list[dict[str, Any]] = self.to_dict()["rows"]
        return rows

    def to_dict(self) -> dict[str, Any]:
        """The protocol, and the rows."""
        content: dict[str, Any] = json.loads((self.path / BENCH).read_text("utf-8"))
        return content

    @property
    def text(self) -> str:
        """The table, as Markdown."""
        return (self.path / TABLE).read_text("utf-8")


@dataclass(frozen=True)
class Bench:
    """Files of negatives to judge; rates: to choose from, the usual ones of the student's kind where there are none."""

    recipe: BenchRecipe
    rates: Sequence[float] = ()

    def judged(self, plan: "Plan", workplace: "Workplace") -> BenchResult:
        """Reads the files, chooses each arm's learning rate on the dev queries, trains, measures and counts.

        Raises:
            DataError: a file has a mistake, or no negatives of the collection's training queries.
        """
        collection = StoredCollection.open(make_dataset(plan, workplace).path)
        files = self.recipe.files.items()
        faults = {label: file_faults(path, self.recipe.form, collection, _SPLIT) for label, path in files}
        tuning, on_dev = self._tuned(sorted(set(self.rates)) or usual_rates(plan.recipe.model), workplace)
        best = {label: max(by_rate, key=lambda rate: by_rate[rate]) for label, by_rate in on_dev.items()}
        final = replace(self.recipe, rates=best)
        outcome = workplace.make_later("bench", chosen := final.plan(workplace.tell), REPORT)
        steps = [DATASET, SCORES, HARDNESS, REPORT, *map(final.negatives_of, final.files)]
        origin = {
            "stage": "bench",
            "version": _VERSION,
            "inputs": {name: outcome.artifacts[name].key for name in steps},
            "options": {"tuning": tuning, "files": [*final.files]},
            "name": "bench",
        }
        write = partial(_write, final, chosen.recipe.tree, outcome, faults, on_dev)
        artifact = keep_result(workplace.store, "bench", origin, write)
        return BenchResult("bench", artifact.key, artifact.path, artifact.facts)

    def _tuned(
        self, rates: Sequence[float], workplace: "Workplace"
    ) -> tuple[dict[str, str], dict[str, dict[float, float]]]:
        """The key of the scores of each rate on the dev queries, with one seed; the mean by arm and rate."""
        keys, on_dev = dict[str, str](), dict[str, dict[float, float]]()
        for rate in rates:
            recipe = replace(self.recipe, rates=dict.fromkeys(self.recipe.stages, rate), tuning=True)
            scores = workplace.make_later("bench", recipe.plan(workplace.tell), SCORES).artifacts[SCORES]
            keys[str(rate)], results = scores.key, read_metrics(scores.path / METRICS).results
            for label in recipe.stages:
                on_dev.setdefault(label, {})[rate] = means(results[label])[METRIC]
        return keys, on_dev


def usual_rates(model: "ModelSpec") -> list[float]:
    """Learning rates to choose from: of a table of token vectors a thousand times those of a transformer."""
    from hardneg.encoders.open.resolved import resolve

    static = getattr(resolve(model, fetch=True).family, "tables", False)
    return [*(STATIC_RATES if static else OTHER_RATES)]


def _write(
    recipe: BenchRecipe,
    tree: Mapping[str, Any],
    outcome: "Outcome",
    faults: Mapping[str, FileFaults],
    on_dev: Mapping[str, Mapping[float, float]],
    folder: Path,
) -> Mapping[str, Any]:
    """Writes the rows, the table, the recipe, and the report beside them."""
    from hardneg.recipe.yaml_load import as_yaml

    artifacts = outcome.artifacts
    for name in (REPORT_HTML, REPORT_MARKDOWN, QUERY_TABLE):
        link_file(artifacts[REPORT].path / name, folder / name)
    link_file(artifacts[SCORES].path / METRICS, folder / METRICS)
    mined = {label: artifacts[recipe.negatives_of(label)].facts for label in recipe.files}
    hardness = json.loads((artifacts[HARDNESS].path / f"{HARDNESS}.json").read_text("utf-8"))
    measured = Measurements(json.loads((folder / METRICS).read_text("utf-8")), hardness, faults, mined, on_dev)
    content = content_of(recipe, measured)
    replace_text(folder / BENCH, json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
    replace_text(folder / TABLE, as_markdown(content))
    replace_text(folder / RECIPE, as_yaml(tree))
    return {"rows": len(recipe.files)}


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


def content_of(recipe: BenchRecipe, measured: Measurements) -> dict[str, Any]:
    """`protocol`, what all rows share; `baselines`, the rows beside; `rows`, one a file."""
    evaluated, rates = measured.metrics, [*measured.on_dev[RANDOM]]
    protocol = {
        "student": recipe.model,
        "options": dict(recipe.options),
        "seeds": recipe.seeds,
        "learning_rates": rates,
        "chosen_by": f"{METRIC} on dev queries, seed 1",
        "equivalence_margin": recipe.equivalence_margin,
        "settings": [*recipe.settings],
    }
    beside = {label: _trained(label, recipe, measured) for label in BASELINES}
    shipped = {label: {"metrics": evaluated["metrics"][label]} for label in evaluated["metrics"]}
    others = {label: each for label, each in shipped.items() if label not in recipe.stages}
    rows = [_row(label, recipe, measured) for label in recipe.files]
    return {"protocol": protocol, "baselines": {**others, **beside}, "rows": rows}


def _row(label: str, recipe: BenchRecipe, measured: Measurements) -> dict[str, Any]:
    """One file's row; `trained_with`: what is left when known positives and their copies are dropped."""
    facts = {name: count for name, count in measured.mined[label].items() if isinstance(count, int)}
    tests = measured.metrics["over_seeds"]
    return {
        "negatives": label,
        "file": measured.faults[label].to_json(),
        "trained_with": dict(sorted(facts.items())),
        "hardness": measured.hardness[label],
        **_trained(label, recipe, measured),
        "effect": {
            baseline: {
                each["metric"]: {name: each[name] for name in _TESTED}
                for each in tests
                if (each["system"], each["baseline"]) == (label, baseline)
            }
            for baseline in BASELINES
        },
    }


def _trained(label: str, recipe: BenchRecipe, measured: Measurements) -> dict[str, Any]:
    """The rate, whether it is the lowest or highest of several, and the metrics with their deviation over seeds."""
    by_rate, by_seed = measured.on_dev[label], measured.metrics["per_seed"][label]
    rate, seeds = recipe.rates[label], {seed: means(scores) for seed, scores in by_seed.items()}
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
            deviation = f" ({number(each['deviations'][metric])})" if "deviations" in each else ""
            cells = []
            for baseline in BASELINES:
                test = each.get("effect", {}).get(baseline, {}).get(metric)
                ends = ", ".join(map(signed, test["interval"])) if test and test["interval"] else "–"
                shown = (
                    [f"{signed(test['difference'])} [{ends}]", p_value(test["t_holm"]), test["verdict"]] if test else []
                )
                cells += shown or [""] * 3
            yield [label, rate, metric, number(mean) + deviation, *cells]


def _notes(content: Mapping[str, Any]) -> Iterator[str]:
    """What a reader must know beside the figures."""
    for label, each in _arms(content).items():
        counts = dict(each["file"]["left_out"]) if "file" in each else {}
        counts["queries that got a random negative"] = each.get("trained_with", {}).get(f"queries with {FILLED}", 0)
        yield from (f"\n{label}: {reason}: {count:,}." for reason, count in counts.items() if count)
        if each.get("at_the_end_of_the_grid"):
            yield f"\n{label}: its learning rate is at the end of the grid; another may do better."


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as Markdown; the first is the head."""
    lines = [f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows]
    return [lines[0], "|" + "---|" * len(rows[0]), *lines[1:]]
