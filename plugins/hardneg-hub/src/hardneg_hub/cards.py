"""Repository cards, written with huggingface_hub's classes, and the run folders that they describe."""

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml

from hardneg.plugin import errors, layout, measuring, metrics_files, pyserini_lines, recipes, stores
from hardneg_hub.private_paths import dataset_name, without_paths

DATASET = "dataset"
LOCK = "recipe.lock.yaml"


@dataclass(frozen=True)
class RecordedRun:
    """A run folder and its lock file; recipe: None if one of its plugins is no longer installed."""

    folder: Path
    store: stores.Store
    lock: Mapping[str, Any]
    recipe: Any

    @classmethod
    def open(cls, folder: Path, store: stores.Store) -> "RecordedRun":
        """Read the lock file of a run folder. Raises DataError if it is missing or damaged."""
        lock, recipe = recipes.read_lock(folder), None
        with suppress(errors.HardnegError):
            recipe = recipes.check_recipe(lock["tree"], Path(f"{lock['recipe']}.yaml"), lock["preset"])
        return cls(folder, store, lock, recipe)

    @property
    def stages(self) -> Mapping[str, Any]:
        """The stages of the run's recipe; empty without a recipe."""
        return self.recipe.stages if self.recipe else {}

    @property
    def dataset(self) -> str:
        """The recipe's dataset: its source or else its name, with folder paths reduced to their last part."""
        named = dataset_name(self.lock["tree"].get(DATASET, ""))
        return str(named.get("source") or named.get("name")) if isinstance(named, Mapping) else str(named)

    @property
    def dataset_id(self) -> str | None:
        """The dataset's hub id, if any."""
        loader, _, source = self.dataset.partition(":")
        return source if loader == "hf" and "/" in source else None

    @property
    def dataset_title(self) -> str:
        """The last part of the dataset's name, without its loader."""
        return self.dataset.rpartition(":")[2].rpartition("/")[2]

    @property
    def shown_lock(self) -> bytes:
        """The lock file for publication, without the command, and with paths cut to their last part."""
        tree = {**without_paths(self.lock["tree"]), DATASET: dataset_name(self.lock["tree"].get(DATASET, ""))}
        return yaml.safe_dump({**self.lock, "command": "", "tree": tree}, sort_keys=False, allow_unicode=True).encode()

    def key(self, stage: str) -> str:
        """The key of a stage's result or, for `start`, of the start model; empty if unknown."""
        return str(self.lock["start_model"] if stage == "start" else self.lock["keys"].get(stage, ""))

    def artifact(self, stage: str) -> Any:
        """The artifact of a stage, or None if the store no longer has it."""
        return self.store.find(key) if (key := self.key(stage)).isalnum() else None

    def output(self, output_type: str) -> str | None:
        """The stage that wrote the run folder's `model` or `index`; None if there is none."""
        return self.recipe.outputs.get(output_type) if self.recipe else None

    def negatives_of(self, stage: str | None) -> list[str]:
        """The stages whose negatives a stage trains with; empty without a stage."""
        spec = self.stages.get(stage or "")
        named = [target for _, target, need in spec.references() if "negatives" in need.artifact_types] if spec else []
        return [target for target in dict.fromkeys(named) if target in self.stages]

    def query_model(self, index: str) -> str | None:
        """The stage whose model encodes the queries of an index, or None."""
        return self.recipe.view(index).query_model(index) if self.recipe else None

    @cached_property
    def measured(self) -> metrics_files.Measured | None:
        """The run folder's metrics; None without a metrics file."""
        path = self.folder / layout.METRICS
        return metrics_files.read_metrics(path) if path.is_file() else None

    @cached_property
    def evaluation(self) -> Any:
        """The options of the stage that evaluated the systems in the metrics, or None if there is none."""
        systems = list(self.measured.results) if self.measured else None
        stages = (spec for spec in self.stages.values() if spec.stage == "evaluate")
        return next((spec for spec in stages if list(spec.runs) == systems), None)

    @property
    def queries(self) -> str:
        """The kind of queries that the metrics are over: `written queries` if they were generated, else `queries`."""
        spec, recipe = self.evaluation, self.recipe
        return "written queries" if spec and recipe and spec.on_written_queries(recipe.view("")) else "queries"

    def scores(self, model: str) -> tuple[list[str], dict[str, Any]]:
        """Return the systems that search with only the model of a stage, and their metrics with those of the baselines.

        Metrics are as in a metrics file; without baselines, all systems are included. No evaluation: both are empty.
        """
        content, spec = self.measured, self.evaluation
        if content is None or spec is None:
            return [], {}
        shown: dict[str, measuring.Scores] = {}
        for system, run in spec.runs.items():
            for seed, name in ({None: run} if isinstance(run, str) else run).items():
                if self._searched_with(name) == model:
                    shown[system] = content.results[system] if seed is None else content.by_seed[system][seed]
        own = list(shown)
        shown |= {name: content.results[name] for name in spec.baselines or spec.runs if name not in own}
        return own, metrics_files.to_json(metrics_files.Measured(shown))

    def _searched_with(self, run: str) -> str | None:
        spec: Any = self.stages.get(run)
        if spec is None or spec.stage != "search" or spec.candidates is not None:
            return None
        return spec.model or self.query_model(spec.index)


MODEL_PATH = "path/to/this/folder"
"""The placeholder path of a model in a card, if it is in no repository."""
MODEL = "the-model"
"""The placeholder for the model of an index if the model's repository is unknown."""
_USE = "## Use"
_BY_HARDNEG = """\
from pathlib import Path

from hardneg.plugin import open_store
from huggingface_hub import snapshot_download

{fetched}
searcher = open_store(Path(folder))"""


def pushed_model_card(text: str, repo: str, run: RecordedRun | None, model: str, paragraphs: Sequence[str]) -> str:
    """Return the hub card of a model; text: the card in the model's folder; what the user added there is kept.

    repo: the repository. model: the stage of `run` that trained the model. paragraphs: paragraphs on its origin.

    Raises DataError for a card without valid metadata.
    """
    from huggingface_hub import ModelCard

    whole = text if text.lstrip().startswith("---") else f"---\nlibrary_name: sentence-transformers\n---\n\n{text}"
    try:
        card = ModelCard(whole)
    except (yaml.YAMLError, ValueError, TypeError) as error:
        first = str(error).partition("\n")[0]
        raise errors.DataError(f"README.md: invalid card metadata ({first}); correct it") from None
    card.text = card.text.replace(MODEL_PATH, repo)
    if run is not None:
        own, content = run.scores(model)
        data: Any = card.data
        if run.dataset_id and not data.datasets:
            data.datasets = [run.dataset_id]
        if own:
            data.model_name = repo.rpartition("/")[2]
            data.eval_results = [result for system in own for result in eval_results(run, content["metrics"][system])]
            paragraphs = [*_scores_section(run, own, content), *paragraphs]
    if paragraphs:  # before the section on use, replacing an earlier table of scores
        before, heading, after = card.text.rpartition(_USE)
        kept = re.sub(r"\n## Scores\n.*?(?=\n## |\Z)", "", before if heading else card.text, flags=re.DOTALL).rstrip()
        card.text = "\n\n".join([kept, *paragraphs]) + (f"\n\n{heading}{after}" if heading else "\n")
    return str(card).rstrip() + "\n"


def eval_results(run: RecordedRun, means: Mapping[str, float]) -> list[Any]:
    """Return a system's means by metric as a list of `EvalResult`s, for the card's `model-index`."""
    from huggingface_hub import EvalResult

    return [
        EvalResult(
            task_type="information-retrieval",
            task_name="Information Retrieval",
            dataset_type=run.dataset_id or run.dataset_title,
            dataset_name=run.dataset_title + (f", {run.queries}" if run.queries != "queries" else ""),
            dataset_split=run.evaluation.split if run.evaluation else "test",
            metric_type=metric.replace("@", "_at_"),
            metric_name=metric,
            metric_value=round(value, 5),
        )
        for metric, value in means.items()
    ]


def _scores_section(run: RecordedRun, own: Sequence[str], content: Mapping[str, Any]) -> list[str]:
    """Paragraphs with the scores of a model and of other systems, each mean with its interval."""
    metrics = list(dict.fromkeys(metric for system in own for metric in content["metrics"][system]))
    rows = {}
    for system, means in content["metrics"].items():
        ends = {
            name: f" [{max(at[0], 0):.4f}, {min(at[1], 1):.4f}]"
            for name, at in content["intervals"][system].items()
            if at
        }
        rows[without_paths(system)] = {
            name: f"{means[name]:.4f}{ends.get(name, '')}" for name in metrics if name in means
        }
    count = max(len(values) for system in own for values in content["per_query"][system].values())
    caption = (
        f"Means over {count:,} {run.queries} of the split `{run.evaluation.split if run.evaluation else ''}` of "
        f"{run.dataset_title}; in brackets their 95% confidence intervals over queries."
    )
    if len(content["metrics"]) > len(own):
        caption += f" This model is {' and '.join(own)}; the other rows were measured in the same evaluation."
    return ["## Scores", table(rows), caption]


def table(rows: Mapping[str, Mapping[str, str]]) -> str:
    """Return scores as a Markdown table with a row for each key and a column for each metric."""
    metrics = list(dict.fromkeys(metric for row in rows.values() for metric in row))
    lines = [["", *metrics], ["---"] * (len(metrics) + 1)]
    lines += [[name, *(row.get(metric, "") for metric in metrics)] for name, row in rows.items()]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def origin_section(run: RecordedRun | None, stage: str | None, artifact: Any) -> list[str]:
    """Paragraphs on the origin of a result, from a run's stage or an artifact's manifest; empty with neither."""
    facts: dict[str, object]
    if run is not None and stage:
        preset = f", preset `{run.lock['preset']}`" if run.lock.get("preset") else ""
        mined = {
            f"Negatives `{name}`": f"{mined_by(run, name)}, key `{run.key(name)}`" for name in run.negatives_of(stage)
        }
        facts = {
            "Recipe": f"`{run.lock.get('recipe', '')}`{preset}, stage `{stage}`",
            "Dataset": f"`{run.dataset}`, key `{run.key('dataset')}`",
            **mined,
            "Key": f"`{run.key(stage)}`",
            "Made by": f"hardneg {run.lock.get('hardneg', '')}, pushed by hardneg {version('hardneg')}",
        }
        more = [f"`{LOCK}` next to this card contains the whole recipe and the key of each step."]
        return ["## How it was made", listed(facts), *more]
    if artifact is None:
        return []
    origin: dict[str, Any] = without_paths(artifact.origin)
    facts = {"Stage": f"`{origin.get('stage', '')}`"}
    for name, plugin in dict(origin.get("plugins", {})).items():
        facts[name.capitalize()] = f"`{plugin['name']}` with `{json.dumps(plugin.get('options', {}))}`"
    facts |= {f"Key of {name}": f"`{key}`" for name, key in dict(origin.get("inputs", {})).items()}
    return ["## How it was made", listed({**facts, "Key": f"`{artifact.key}`"})]


def mined_by(run: RecordedRun, stage: str) -> str:
    """Return a phrase on how a stage mined its negatives."""
    spec: Any = run.stages[stage]
    if not hasattr(spec, "miner"):
        return f"by `{spec.stage}`"
    miner = run.recipe.plugins.get((stage, "miner")) if run.recipe else None
    source = f" from {', '.join(f'`{name}`' for name in spec.runs.values())}" if getattr(spec, "runs", {}) else ""
    return f"mined by `{without_paths(str(miner or spec.miner))}`{source}"


def dataset_card(repo: str, metadata: Mapping[str, Any], paragraphs: Sequence[str], lines: str, after: str = "") -> str:
    """The card of a dataset repository; lines: Python code that opens it; after: text below the code."""
    from huggingface_hub import DatasetCardData

    data = DatasetCardData(pretty_name=repo.rpartition("/")[2], **metadata).to_yaml()
    whole = [*paragraphs, "## Use", f"```python\n{lines}\n```", *([after] if after else [])]
    return f"---\n{data}\n---\n\n" + "\n\n".join(whole) + "\n"


def listed(facts: Mapping[str, object]) -> str:
    """A Markdown list of facts."""
    return "\n".join(f"- {name}: {value}" for name, value in facts.items())


def index_lines(folder: Path, repo: str, encoder: str, run: RecordedRun | None) -> str:
    """Return code that opens the index of a repository, with Pyserini if possible, else with hardneg.

    folder: the index. encoder: the repository of the index's model, or empty. run: the run of an index in a run folder.
    """
    fetched = f'folder = snapshot_download("{repo}", repo_type="dataset")'
    card = f"the card of {encoder}" if encoder else "its model's card"
    text = pyserini_lines.opening(
        folder, {}, pyserini_lines.QuerySide(reason=f"{card} describes how its queries are encoded")
    )
    if run is not None:
        with suppress(errors.HardnegError):  # the model is not here
            _, lines = next(pyserini_lines.openings(run.folder / folder.name, run.store))
            text = text if f'"{run.folder}/model/' in lines else lines  # a part of a model has no name on the hub
    if "searcher = " not in text:
        return _BY_HARDNEG.format(fetched=fetched)
    text = text.replace(f'"{folder}"', "folder").replace(str(folder), repo)
    text = re.sub(r'"/[^"]+"', f'"{encoder or MODEL}"', text)
    before, searcher, after = text.partition("searcher = ")
    return f"from huggingface_hub import snapshot_download\n{before}{fetched}\n{searcher}{after}"
