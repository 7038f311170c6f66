"""mteb's metadata of a system: a name, a revision that changes with the content, and settings."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardneg.doors.mteb.system import INDEX
from hardneg.encoders.open.resolved import ResolvedModel, resolve
from hardneg.encoders.spec import ModelSpec
from hardneg.records.errors import ModelError
from hardneg.store.digest import digest
from hardneg.store.identity import plugin_identity

if TYPE_CHECKING:
    from hardneg.doors.mteb.system import TaskSystem

_TYPES = {"vectors": "dense", "weights": "sparse", "token-vectors": "late-interaction"}
_SIMILARITIES = {"dot": "dot", "cosine": "cosine", "maxsim": "MaxSim"}


def model_meta(system: "TaskSystem") -> Any:
    """mteb's `ModelMeta`.

    A hub id is filed under that and its commit, as mteb does it; a folder under its name and a digest of what is in it,
    so that results of other weights are never taken for its own. An index and settings make it an experiment.

    Raises:
        ModelError: there is no such model.
        RecipeError: the index or the settings have mistakes.
    """
    from mteb.models import ModelMeta

    if system.model is not None:
        facts = _of_model(system)
    elif system.index is not None:
        name = system.index.name
        content = digest(plugin_identity(name, system.plain.plugins[INDEX, "backend"]))
        facts = {"name": f"hardneg/{name}", "revision": content, "model_type": ["sparse"]}
    else:
        raise ModelError("a system has a model or an index of texts: give one")
    settings: dict[str, Any] = dict(setting.partition("=")[::2] for setting in system.settings)
    if system.index is not None and system.model is not None:
        settings |= {"index": system.index.name, **system.index.options}
    return ModelMeta.create_empty(facts | {"experiment_kwargs": settings or None, "modalities": ["text"]})


def _of_model(system: "TaskSystem") -> dict[str, Any]:
    from mteb.models.model_meta import ScoringFunction

    model = resolve(system.plain.model)
    name, revision = _name_and_revision(resolve(ModelSpec(str(system.model), system.plain.model.revision)))
    spec = model.known or model.spec
    scoring = _SIMILARITIES.get(spec.similarity or "")
    form = _TYPES[model.family.form]
    shape = {"embed_dim": model.dimension, "max_tokens": spec.document_length}
    similarity = {} if scoring is None else {"similarity_fn_name": ScoringFunction(scoring)}
    return {"name": name, "revision": revision, "model_type": [form], **shape, **similarity}


def _name_and_revision(model: ResolvedModel) -> tuple[str, str]:
    name = model.origins[0][0].name
    if (commit := model.origins[0][1].commit) is not None:
        return name if "/" in name else f"hub/{name}", commit
    prefix, colon, packaged = name.partition(":")
    if colon:
        return f"{prefix}/{packaged}", model.digest
    return f"local/{Path(name).expanduser().absolute().name or 'model'}", model.digest
