"""Systems to evaluate, with recipe and mteb metadata: a model, optionally with an index, or an index of texts.

A system gets the same texts of a task as mteb's own models.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

import hardneg.plugin as hp

if TYPE_CHECKING:
    from mteb.abstasks.task_metadata import TaskMetadata

VECTORS, INDEX = "vectors", "index"
DATASET, _BEIR = "dataset", "beir"
_SIDES: tuple[hp.model_specs.Side, ...] = ("query", "document")
_NONE = "none"
_AT_ONCE = 4096
_TYPES = {"vectors": "dense", "weights": "sparse", "token-vectors": "late-interaction"}


def task_texts(rows: Any, task_metadata: Any, side: hp.model_specs.Side) -> Sequence[str]:
    """Return the text of each row as mteb joins it: a document's title and text, or a query and its instruction.

    Args:
        rows: a `datasets.Dataset` of a task's corpus or queries.
        task_metadata: mteb's `TaskMetadata`.
    """
    from mteb._create_dataloaders import create_dataloader
    from mteb.types import PromptType

    if not len(rows):
        return ()
    loader = create_dataloader(rows, task_metadata=task_metadata, prompt_type=PromptType(side))
    texts: Sequence[str] = loader.dataset["text"]
    return texts


@dataclass(frozen=True)
class TaskTexts:
    """A dataset loader for a corpus that mteb has in memory, and also the collection that it loads, without queries.

    Document ids are row numbers, so corpora with equal texts have equal keys in the store.

    source: the texts in row order.
    """

    source: Annotated[Any, Field(exclude=True)]
    version: ClassVar[int] = 1

    def load(self) -> "TaskTexts":
        """Return this object, which is also the collection."""
        return self

    def fingerprint(self) -> str:
        """Return a digest of all texts in order, including the length of each in bytes."""
        state = hashlib.blake2b(digest_size=16)
        for document in self.documents():
            encoded = document.text.encode("utf-8", "surrogatepass")
            state.update(len(encoded).to_bytes(8, "little"))
            state.update(encoded)
        return state.hexdigest()

    def size_hint(self) -> int:
        """Return the number of documents."""
        return len(self.source)

    def documents(self) -> Iterator[hp.Document]:
        """Yield each text as a document, with its row as id."""
        for start in range(0, len(self.source), _AT_ONCE):
            yield from (
                hp.Document(str(row), text) for row, text in enumerate(self.source[start : start + _AT_ONCE], start)
            )

    def splits(self) -> Sequence[str]:
        """Return no splits."""
        return ()

    def queries(self, split: str) -> Iterator[hp.Query]:
        """Yield no queries."""
        return iter(())

    def qrels(self, split: str) -> Iterator[hp.Judgement]:
        """Yield no judgements."""
        return iter(())

    def notes(self) -> Sequence[str]:
        """Return no notes."""
        return ()


@dataclass(frozen=True)
class TaskSystem:
    """A system to evaluate: a model, or an index of texts.

    model: a folder, a hub id or packaged:all-MiniLM-L6-v2; None for an index of texts.
    index: index of texts or of the model's vectors; None for exact search. settings: recipe settings, `PATH=VALUE`.
    """

    model: str | None
    index: hp.records.PluginSetting | None = None
    settings: tuple[str, ...] = ()

    @classmethod
    def named(
        cls, name: str, index: hp.records.PluginSetting | None = None, settings: tuple[str, ...] = ()
    ) -> "TaskSystem":
        """Return the system of a model, or of an index of texts such as bm25, which ignores `index`."""
        points = entry_points(group="hardneg.indexes", name=name)
        if points and not Path(name).exists() and next(iter(points)).load().input == "texts":
            return cls(None, hp.records.PluginSetting(name), settings)
        return cls(name, index, settings)

    @property
    def last(self) -> str:
        """The name of the stage with the index to search."""
        return VECTORS if self.index is None else INDEX

    @cached_property
    def plain(self) -> Any:
        """The recipe without a task's corpus, to describe the system. Raises RecipeError with all mistakes."""
        return self._checked({"dataset": {"name": _BEIR, "source": _NONE}, "model": {"name": self.model or _NONE}})

    def recipe(self, task: "TaskMetadata", texts: TaskTexts) -> Any:
        """Return the recipe that indexes a task's corpus.

        If the model's folder has prompts for the task or its type, they are used as in mteb; otherwise, the model's
        prompts for queries and documents are used. `{task}` in a prompt setting is replaced by the task's instruction.

        Raises:
            RecipeError: the settings have mistakes.
        """
        model: dict[str, Any] = {"name": self.model or _NONE, **self._prompts(task)}
        checked = self._checked({"dataset": {"name": _BEIR, "source": task.name}, "model": model}, task)
        dataset = checked.dataset.model_copy(update={"loader": hp.records.PluginSetting("mteb")})
        stages = {**checked.stages, DATASET: dataset}
        return replace(checked, stages=stages, plugins={**checked.plugins, (DATASET, "loader"): texts})

    def _checked(self, tree: Mapping[str, Any], task: "TaskMetadata | None" = None) -> Any:
        stages: dict[str, Any] = {VECTORS: {"stage": "encode", "precision": "fp32"}} if self.model else {}
        if self.index is not None:
            built = {"stage": "index", "backend": {"name": self.index.name, **self.index.options}}
            stages[INDEX] = {**built, "vectors": VECTORS} if self.model else built
        changed, problems = hp.recipes.apply_settings({**tree, "stages": stages}, self.settings)
        model = changed["model"]
        prompts = [str(model.get(f"{side}_prompt")) for side in _SIDES] if isinstance(model, Mapping) else []
        if any("{task}" in prompt for prompt in prompts) and "task" not in model:
            changed["model"] = {**model, "task": _instruction(task) if task is not None else _NONE}
        return hp.recipes.check_recipe(changed, Path("mteb"), earlier=problems)

    def _prompts(self, task: "TaskMetadata") -> dict[str, Any]:
        """Return settings with the names of the prompts for a task in the model's folder."""
        if self.model is None:
            return {}
        model, prompts = hp.resolving.resolve(hp.model_specs.ModelSpec(self.model, self.plain.model.revision)), {}
        own = (
            model.contract.prompts
            if model.location.folder is not None and isinstance(model.family, hp.resolving.FolderFamily)
            else {}
        )
        for side in _SIDES:
            names = (f"{task.name}-{side}", task.name, f"{task.type}-{side}", task.type)
            if (name := next((name for name in names if name in own), None)) is not None:
                prompts[f"{side}_prompt"] = {"name": name}
        return prompts

    @cached_property
    def meta(self) -> Any:
        """mteb's `ModelMeta`: a name, a revision that changes with the content, and settings.

        A hub model has its id and commit, as in mteb. A folder has its name and a digest of its content, so that
        results of different weights are never mixed. With an index or settings, the model is an mteb experiment.

        Raises:
            ModelError: there is no such model.
            RecipeError: the index or the settings have mistakes.
        """
        from mteb.models import ModelMeta

        settings: dict[str, Any] = dict(setting.partition("=")[::2] for setting in self.settings)
        if self.model is not None:
            facts = self._model_facts(self.model)
            settings |= {"index": self.index.name, **self.index.options} if self.index else {}
        elif self.index is not None:
            content = hp.stores.digest(hp.stores.plugin_identity(self.index.name, self.plain.plugins[INDEX, "backend"]))
            facts = {"name": f"hardneg/{self.index.name}", "revision": content, "model_type": ["sparse"]}
        else:
            raise hp.errors.ModelError("TaskSystem needs a model or an index of texts")
        return ModelMeta.create_empty(facts | {"experiment_kwargs": settings or None, "modalities": ["text"]})

    def _model_facts(self, named: str) -> dict[str, Any]:
        form = hp.resolving.resolve(self.plain.model).family.form
        own = hp.resolving.resolve(hp.model_specs.ModelSpec(named, self.plain.model.revision))
        name, commit = own.origins[0][0].name, own.origins[0][1].commit
        prefix, colon, packaged = name.partition(":")
        if commit is not None:
            name = name if "/" in name else f"hub/{name}"
        else:
            name = f"{prefix}/{packaged}" if colon else f"local/{Path(name).expanduser().absolute().name or 'model'}"
        return {"name": name, "revision": commit or own.digest, "model_type": [_TYPES[form]]}


def _instruction(task: "TaskMetadata") -> str:
    """Return the instruction of a task, or else of its task type."""
    from mteb.abstasks.abstask import get_abstask_prompt

    prompt: Any = task.prompt
    return str((prompt.get("query") if isinstance(prompt, Mapping) else prompt) or get_abstask_prompt(task.name))
