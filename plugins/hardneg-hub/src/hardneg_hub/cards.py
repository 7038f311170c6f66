"""Cards of hub repositories, and the run folders that they describe."""

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
    """A run folder and its lock file. recipe: None if it is no longer valid, as when a plugin is missing."""

    folder: Path
    store: stores.Store
    lock: Mapping[str, Any]
    recipe: Any

    @classmethod
    def open(cls, folder: Path, store: stores.Store) -> "RecordedRun":
        """Open a run folder and read its lock file. Raises DataError if it is missing or damaged."""
        lock, recipe = recipes.read_lock(folder), None
        with suppress(errors.HardnegError):
            recipe = recipes.check_recipe(lock["tree"], Path(f"{lock['recipe']}.yaml"), lock["preset"])
        return cls(folder, store, lock, recipe)

    @property
    def stages(self) -> Mapping[str, Any]:
        """The stages of the recipe by name; empty if `recipe` is None."""
        return self.recipe.stages if self.recipe else {}

    @property
    def dataset(self) -> str:
        """The dataset of the recipe, such as `hf:org/name`. A folder path is cut to its last part."""
        named = dataset_name(self.lock["tree"].get(DATASET, ""))
        return str(named.get("source") or named.get("name")) if isinstance(named, Mapping) else str(named)

    @property
    def dataset_id(self) -> str | None:
        """The dataset's id on the hub, or None if it is not from the hub."""
        loader, _, source = self.dataset.partition(":")
        return source if loader == "hf" and "/" in source else None

    @property
    def dataset_title(self) -> str:
        """The last part of the dataset's name, without its loader."""
        return self.dataset.rpartition(":")[2].rpartition("/")[2]

    @property
    def shown_lock(self) -> bytes:
        """The lock file as YAML to publish: the command is empty, and paths are cut to their last part."""
        tree = {**without_paths(self.lock["tree"]), DATASET: dataset_name(self.lock["tree"].get(DATASET, ""))}
        return yaml.safe_dump({**self.lock, "command": "", "tree": tree}, sort_keys=False, allow_unicode=True).encode()

    def key(self, stage: str) -> str:
        """Return the key of a stage's artifact or, for `start`, of the start model; empty if unknown."""
        return str(self.lock["start_model"] if stage == "start" else self.lock["keys"].get(stage, ""))

    def artifact(self, stage: str) -> Any:
        """Return the artifact of a stage, or None if the store does not have it."""
        return self.store.find(key) if (key := self.key(stage)).isalnum() else None

    def output(self, output_type: str) -> str | None:
        """Return the stage that wrote an output of the run folder (`model` or `index`), or None."""
        return self.recipe.outputs.get(output_type) if self.recipe else None

    def negatives_of(self, stage: str | None) -> list[str]:
        """Return the stages whose negatives are used by `stage`; empty if it is None."""
        spec = self.stages.get(stage or "")
        named = [target for _, target, need in spec.references() if "negatives" in need.artifact_types] if spec else []
        return [target for target in dict.fromkeys(named) if target in self.stages]

    def query_model(self, index: str) -> str | None:
        """Return the stage whose model encodes queries for the index of a stage, or None if unknown."""
        return self.recipe.view(index).query_model(index) if self.recipe else None

    @cached_property
    def measured(self) -> metrics_files.Measured | None:
        """The metrics of the run folder, or None if it has no metrics file."""
        path = self.folder / layout.METRICS
        return metrics_files.read_metrics(path) if path.is_file() else None

    @cached_property
    def evaluation(self) -> Any:
        """The `evaluate` stage that scored the systems in the metrics file, or None if there is none."""
        systems = list(self.measured.results) if self.measured else None
        stages = (spec for spec in self.stages.values() if spec.stage == "evaluate")
        return next((spec for spec in stages if list(spec.runs) == systems), None)

    @property
    def queries(self) -> str:
        """What to call the evaluated queries: `written queries` if they were generated, else `queries`."""
        spec, recipe = self.evaluation, self.recipe
        return "written queries" if spec and recipe and spec.on_written_queries(recipe.view("")) else "queries"

    def scores(self, model: str) -> tuple[list[str], dict[str, Any]]:
        """Return the systems that search with only the model of a stage, and the metrics of them and of the baselines.

        The format is that of a metrics file. Without baselines, all systems are included; without evaluation, none.
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
"""Placeholder in a card for the path of a model that is in no repository."""
MODEL = "the-model"
"""Placeholder in a card for the model of an index if the model's repository is unknown."""
_USE = "## Use"
_BY_HARDNEG = """\
from pathlib import Path

from hardneg.plugin import open_store
from huggingface_hub import snapshot_download

{fetched}
searcher = open_store(Path(folder))"""


def pushed_model_card(text: str, repo: str, run: RecordedRun | None, model: str, paragraphs: Sequence[str]) -> str:
    """Return the hub card of a model: `text`, the card in its folder with the user's additions, plus scores and origin.

    repo: the repository. model: the stage of `run` that trained the model. paragraphs: text about its origin to add.

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
    """Return the mean of each metric as an `EvalResult` for the `model-index` of a card. means: by metric."""
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
    """Return paragraphs with the scores of a model and other systems: means with their intervals."""
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
    """Return a Markdown table with a row for each key and a column for each metric. rows: scores by metric."""
    metrics = list(dict.fromkeys(metric for row in rows.values() for metric in row))
    lines = [["", *metrics], ["---"] * (len(metrics) + 1)]
    lines += [[name, *(row.get(metric, "") for metric in metrics)] for name, row in rows.items()]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def origin_section(run: RecordedRun | None, stage: str | None, artifact: Any) -> list[str]:
    """Return paragraphs on how a stage of a run or, without a run, an artifact was made; empty without either."""
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
    """Return a phrase that names the miner of a stage and the runs that it mined from."""
    spec: Any = run.stages[stage]
    if not hasattr(spec, "miner"):
        return f"by `{spec.stage}`"
    miner = run.recipe.plugins.get((stage, "miner")) if run.recipe else None
    source = f" from {', '.join(f'`{name}`' for name in spec.runs.values())}" if getattr(spec, "runs", {}) else ""
    return f"mined by `{without_paths(str(miner or spec.miner))}`{source}"


def dataset_card(repo: str, metadata: Mapping[str, Any], paragraphs: Sequence[str], lines: str, after: str = "") -> str:
    """Return the card of a dataset repository. lines: Python code that opens it. after: text below the code."""
    from huggingface_hub import DatasetCardData

    data = DatasetCardData(pretty_name=repo.rpartition("/")[2], **metadata).to_yaml()
    whole = [*paragraphs, "## Use", f"```python\n{lines}\n```", *([after] if after else [])]
    return f"---\n{data}\n---\n\n" + "\n\n".join(whole) + "\n"


def listed(facts: Mapping[str, object]) -> str:
    """Return the facts as a Markdown list. facts: values by name."""
    return "\n".join(f"- {name}: {value}" for name, value in facts.items())


def index_lines(folder: Path, repo: str, encoder: str, run: RecordedRun | None) -> str:
    """Return Python code that downloads and opens the index of a repository, with Pyserini or else with hardneg.

    folder: of the index. encoder: repository of the model, empty if unknown. run: the run of the index, if any.
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
