"""`hardneg.bench`: files of negatives judged by one protocol."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardneg.api.bench_recipe import METRIC, OTHER_RATES, REPORT, SCORES, STATIC_RATES, BenchRecipe
from hardneg.api.bench_rows import Measurements, as_markdown, content_of
from hardneg.api.content_store import keep_result
from hardneg.api.results import StoredResult
from hardneg.api.single_stage import make_dataset
from hardneg.evaluation.metrics import means
from hardneg.evaluation.metrics_json import read_metrics
from hardneg.formats.collection import StoredCollection
from hardneg.mining.lists_of_file import FileFaults, file_faults
from hardneg.records.layout import DATASET, METRICS, QUERY_TABLE, REPORT_HTML, REPORT_MARKDOWN
from hardneg.records.named_plugins import HARDNESS
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
