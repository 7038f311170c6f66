"""Cards of repositories, by huggingface_hub's own classes: metadata, origin, scores, how to open it."""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import yaml

import hardneg
from hardneg.doors.hub.recorded_run import MeasuredModel, RecordedRun
from hardneg.recipe.private_paths import without_paths
from hardneg.records.errors import DataError
from hardneg.records.layout import LOCK
from hardneg.records.wording import first_line

if TYPE_CHECKING:
    from huggingface_hub import CardData, EvalResult, ModelCard

MODEL_PATH = "path/to/this/folder"
"""The model's path in a card, as long as it is in no repository."""
_USE = "## Use"
_LIBRARY = "library_name: sentence-transformers"
_METRICS = {"mrr": "MRR", "ndcg": "nDCG", "recall": "Recall", "map": "MAP", "precision": "Precision"}


def pushed_model_card(text: str, repo: str, run: RecordedRun | None, model: str, paragraphs: Sequence[str] = ()) -> str:
    """The card of a model as it goes to the hub, from the one in its folder.

    repo: the repository. model: the stage of `run` that trained it. paragraphs: where no run is known. What a user
    wrote into the card stays.
    """
    card = _parsed(text)
    card.text = card.text.replace(MODEL_PATH, repo)
    if run is not None:
        rows = list(run.measured(model))
        data: Any = card.data
        if rows:
            data.model_name = repo.rpartition("/")[2]
            data.eval_results = [result for row in rows for result in eval_results(run, row)]
        if run.dataset_id and not data.datasets:
            data.datasets = [run.dataset_id]
        paragraphs = [*(scores_section(run, rows, list(run.beside(rows))) if rows else ()), *origin_section(run, model)]
    if paragraphs:  # before the section on use, in place of an earlier table of scores
        before, heading, after = card.text.rpartition(_USE)
        own = re.sub(r"\n## Scores\n.*?(?=\n## |\Z)", "", before if heading else card.text, flags=re.DOTALL).rstrip()
        card.text = "\n\n".join([own, *paragraphs]) + (f"\n\n{heading}{after}" if heading else "\n")
    return str(card).rstrip() + "\n"


def _parsed(text: str) -> "ModelCard":
    """A card in two parts, with metadata of its own if it has none. Raises DataError where those are not metadata."""
    from huggingface_hub import ModelCard

    whole = text if text.lstrip().startswith("---") else f"---\n{_LIBRARY}\n---\n\n{text}"
    try:
        return ModelCard(whole)
    except (yaml.YAMLError, ValueError, TypeError) as error:
        raise DataError(f"README.md: its first lines are no metadata of a card: {first_line(error)}") from None


def eval_results(run: RecordedRun, row: MeasuredModel) -> "list[EvalResult]":
    """A row of a run's metrics, for `model-index`."""
    from huggingface_hub import EvalResult

    return [
        EvalResult(
            task_type="information-retrieval",
            task_name="Information Retrieval",
            dataset_type=run.dataset_id or run.dataset_title,
            dataset_name=run.dataset_title + (f", {run.queries}" if run.queries != "queries" else ""),
            dataset_split=row.split,
            metric_type=metric.replace("@", "_at_"),
            metric_name=metric_name(metric),
            metric_value=round(value, 5),
        )
        for metric, value in row.scores.items()
    ]


def metric_name(metric: str) -> str:
    """A metric in the spelling of papers, such as nDCG@10."""
    name, at, cut = metric.partition("@")
    return f"{_METRICS.get(name, name)}{at}{cut}"


def scores_section(run: RecordedRun, rows: Sequence[MeasuredModel], beside: Sequence[MeasuredModel] = ()) -> list[str]:
    """Paragraphs with the rows of a model and of those beside it, each mean with its interval."""
    metrics = list(dict.fromkeys(metric for row in rows for metric in row.scores))
    head = [["", *map(metric_name, metrics)], ["---"] * (len(metrics) + 1)]
    body = [[without_paths(row.system), *(_with_ends(row, metric) for metric in metrics)] for row in (*rows, *beside)]
    first = rows[0]
    caption = (
        f"Means over {first.queries:,} {run.queries} of the split `{first.split}` of {run.dataset_title}; in brackets "
        "their 95 % confidence intervals over queries."
    )
    if beside:
        caption += f" This model is {' and '.join(row.system for row in rows)}; the other rows were measured beside it."
    return ["## Scores", "\n".join("| " + " | ".join(cells) + " |" for cells in head + body), caption]


def _with_ends(row: MeasuredModel, metric: str) -> str:
    if metric not in row.scores:
        return ""
    ends = row.intervals.get(metric)
    shown = f" [{max(ends[0], 0):.4f}, {min(ends[1], 1):.4f}]" if ends else ""
    return f"{row.scores[metric]:.4f}{shown}"


def origin_section(run: RecordedRun, stage: str) -> list[str]:
    """Paragraphs on the origin of a stage's result: the recipe, the dataset, negatives, keys."""
    preset = f", preset `{run.lock['preset']}`" if run.lock.get("preset") else ""
    facts = {
        "Recipe": f"`{run.lock.get('recipe', '')}`{preset}, stage `{stage}`",
        "Dataset": f"`{run.dataset}`, key `{run.key('dataset')}`",
        **{f"Negatives `{name}`": reference for name, reference in negatives_of(run, stage).items()},
        "Key": f"`{run.key(stage)}`",
        "Made by": f"hardneg {run.lock.get('hardneg', '')}, pushed by hardneg {hardneg.__version__}",
    }
    lines = "\n".join(f"- {name}: {value}" for name, value in facts.items())
    reference = f"`{LOCK}` beside this card has the whole recipe, and the key of each of its steps."
    return ["## How it was made", lines, reference]


def negatives_of(run: RecordedRun, stage: str) -> dict[str, str]:
    """The stages whose negatives a stage trains with: how they were mined, and the key of each."""
    return {
        name: f"{mined_by(run, name)}, key `{run.key(name)}`"
        for name in run.references(stage, "negatives")
        if run.key(name)
    }


def mined_by(run: RecordedRun, stage: str) -> str:
    """How a stage mined its negatives, in a line."""
    spec: Any = run.recipe.stages[stage] if run.recipe else None
    runs = getattr(spec, "runs", {})
    if spec is None or not hasattr(spec, "miner"):
        return f"by `{spec.verb}`" if spec else ""
    miner = run.recipe.plugins.get((stage, "miner")) if run.recipe else None
    source = f" from {', '.join(f'`{name}`' for name in runs.values())}" if runs else ""
    return f"mined by `{without_paths(str(miner or spec.miner))}`{source}"


def with_metadata(data: "CardData", paragraphs: Sequence[str]) -> str:
    """A card's text."""
    return f"---\n{data.to_yaml()}\n---\n\n" + "\n\n".join(paragraphs) + "\n"


def listed(facts: Mapping[str, object]) -> str:
    """Facts as a list in Markdown."""
    return "\n".join(f"- {name}: {value}" for name, value in facts.items())
