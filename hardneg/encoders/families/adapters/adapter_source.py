"""A spec's adapter: locates its files, identifies it, and puts it into a model or merges it."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardneg.encoders.families.adapters.adapter_files import (
    CONFIG,
    WEIGHTS,
    adapter_content,
    adapter_weights,
    check_adapter,
    settings_in,
)
from hardneg.encoders.families.adapters.adapter_spec import AUTO, AdapterSpec
from hardneg.encoders.open.model_files import sides
from hardneg.encoders.open.source import Location, locate
from hardneg.encoders.spec import SIDES, FullSpec
from hardneg.records.errors import ModelError
from hardneg.records.types import Lookup

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from torch import nn


def adapter_identity(adapter: AdapterSpec) -> dict[str, Any]:
    """The part of an adapter that may change a model: a trained one's content or commit, or a new one's settings.

    Raises:
        ModelError: there is no such adapter, or the hub cannot be reached.
    """
    if adapter.source is None:
        return {**adapter.settings(), "save": adapter.save}
    location = _located(adapter)
    content = adapter_content(location.path) if location.commit is None else [location.name, location.commit]
    return {"content": content, "save": adapter.save}


def adapter_folder(adapter: AdapterSpec) -> Path | None:
    """The folder of a trained adapter's files, downloaded if needed; None for a new one.

    Raises:
        ModelError: there is no such adapter, or it cannot be downloaded.
    """
    if adapter.source is None:
        return None
    folder = _located(adapter).download([CONFIG, WEIGHTS])
    check_adapter(folder)
    return folder


def look_up_adapter(adapter: AdapterSpec | None) -> Lookup:
    """The size of a trained adapter's files, local and to download; nothing for a new one.

    Raises:
        ModelError: there is no such adapter.
    """
    if adapter is None or adapter.source is None:
        return Lookup()
    location = _located(adapter)
    if location.commit is not None:
        return location.look_up()
    check_adapter(location.path)
    return Lookup(there=adapter_weights(location.path).stat().st_size)


def _located(adapter: AdapterSpec) -> Location:
    location = locate(adapter.source or "", adapter.revision)
    try:
        _ = location.commit
    except ModelError as error:
        raise ModelError(f"adapter: {error}") from error
    return location


def put_adapters(whole: "nn.Module", spec: FullSpec, location: Location, learns: bool) -> None:
    """Puts the spec's adapter into the transformer of each side; a new one only where it `learns`.

    location: the model's. An adapter that the model has already is trained further.

    Raises:
        ModelError: the adapter does not fit the model, or peft is not there.
    """
    from hardneg.encoders.families.adapters.layers import fill, has_adapter, put_in
    from hardneg.encoders.towers import has_twins, route

    adapter = spec.adapter
    if adapter is None:
        return
    if adapter.save == "apart" and (spec.twins or has_twins(whole)):
        problem = "sentence-transformers opens no adapters of two encoders"
        raise ModelError(f"model {spec.name!r}: adapter.save apart: {problem}: set save: merged")
    folder = adapter_folder(adapter)
    done = set[int]()
    for side in SIDES:
        transformer, own = route(whole, side)[0], sides(location.path)[side][0]
        if not hasattr(getattr(transformer, "model", None), "add_adapter"):
            raise ModelError(f"model {spec.name!r} has no transformer to put an adapter in: leave model.adapter out")
        if id(transformer) in done:
            continue
        done.add(id(transformer))
        if has_adapter(transformer.model):
            fill(transformer.model, own)
        elif folder is not None or learns:
            base = (location.name, location.commit) if location.on_hub else (str(own.resolve()), None)
            put_in(transformer.model, adapter, folder, *base)  # by which others open the base


def with_saved_adapter(module: "SentenceTransformer", spec: FullSpec) -> "SentenceTransformer":
    """The model to save: a copy with the adapter merged into its weights, or itself."""
    if spec.adapter is None or spec.adapter.save == "apart":
        return module
    from hardneg.encoders.families.adapters.layers import has_adapter, merged

    return merged(module) if has_adapter(module) else module


def noted(adapter: AdapterSpec) -> dict[str, Any]:
    """The settings of an adapter in a saved model's folder, to train it or the next one further."""
    if adapter.save == "apart":
        return {"save": adapter.save}
    folder = adapter_folder(adapter)
    settings = adapter if folder is None else replace(settings_in(folder), save=adapter.save)
    return {**settings.settings(), "save": settings.save}


def saved_adapter(content: Any, path: Path) -> AdapterSpec | None:
    """The adapter that `noted` saved.

    Raises:
        ModelError: it is not of that form.
    """
    if content is None:
        return None
    try:
        targets = content.get("target_modules", AUTO)
        adapter = AdapterSpec(**{**content, "target_modules": targets if isinstance(targets, str) else tuple(targets)})
        problems = adapter.problems()
    except (TypeError, AttributeError) as error:
        raise ModelError(f"{path}: adapter: not an adapter's settings: save the model again") from error
    if problems:
        raise ModelError(f"{path}: {'; '.join(problems)}: save the model again")
    return adapter
