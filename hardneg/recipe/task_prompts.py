"""The short form `by_dataset` of a model's prompts and task: one for each dataset, by its name."""

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from hardneg.records.wording import suggestion

BY_DATASET = "by_dataset"
_FIELDS = ("query_prompt", "document_prompt", "task")
_OTHERS = "default"


def with_prompts_of(tree: dict[str, Any], problems: list[str]) -> dict[str, Any]:
    """The tree with the prompts and the task of its dataset; `default` is that of datasets which are not named."""
    model = tree.get("model")
    if not isinstance(model, Mapping):
        return tree
    names = dataset_names(tree.get("dataset"))
    chosen = {field: model[field] for field in _FIELDS if field in model}
    for field, value in chosen.items():
        if isinstance(value, Mapping) and BY_DATASET in value:
            chosen[field] = _one(value, names, f"model.{field}", problems)
    return {**tree, "model": {**model, **chosen}} if chosen else tree


def dataset_names(dataset: Any) -> list[str]:
    """What a dataset is called: the last part of its source (without an ending), then its loader's name."""
    if isinstance(dataset, str):
        loader, _, source = dataset.partition(":")
    elif isinstance(dataset, Mapping):
        loader, source = str(dataset.get("name", "")), str(dataset.get("source") or "")
    else:
        return []
    last = PurePath(source.split("@")[0])
    return list(dict.fromkeys(name for name in (last.name, last.stem, loader) if name))


def _one(value: Mapping[str, Any], names: list[str], path: str, problems: list[str]) -> Any:
    by_dataset = value[BY_DATASET]
    if len(value) > 1 or not isinstance(by_dataset, Mapping) or not all(isinstance(name, str) for name in by_dataset):
        problems.append(f"{path}.{BY_DATASET}: must map names of datasets to prompts, and stand alone")
        return None
    for name in (*names, _OTHERS):
        if name in by_dataset:
            return by_dataset[name]
    named = f", {' or '.join(map(repr, names))}" if names else ""
    hint = suggestion(names[0], list(by_dataset)) if names else ""
    problems.append(f"{path}.{BY_DATASET}: none for this dataset{named}{hint}; add one, or `default`")
    return None
