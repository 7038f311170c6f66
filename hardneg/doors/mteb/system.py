"""A system on a task: a model and maybe an index of its vectors, or an index of texts; and its recipe for a task."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardneg.api.adhoc_recipe import checked_tree
from hardneg.doors.mteb.task_texts import TaskTexts
from hardneg.encoders.spec import SIDES, TASK, ModelSpec
from hardneg.recipe.load import Recipe
from hardneg.records.layout import DATASET
from hardneg.records.named_plugins import BEIR
from hardneg.records.types import PluginSetting
from hardneg.registry.plugins import load_plugin

if TYPE_CHECKING:
    from mteb.abstasks.task_metadata import TaskMetadata

VECTORS, INDEX = "vectors", "index"
_NONE = "none"


@dataclass(frozen=True)
class TaskSystem:
    """A row of a comparison.

    model: a folder, a hub id or packaged:all-MiniLM-L6-v2; None for an index of texts.
    index: of its vectors; None searches all of them, exactly. settings: `PATH=VALUE`, laid over the recipe.
    """

    model: str | None
    index: PluginSetting | None = None
    settings: tuple[str, ...] = ()

    @classmethod
    def named(cls, name: str, index: PluginSetting | None = None, settings: tuple[str, ...] = ()) -> "TaskSystem":
        """The system of a model, or of an index of texts, such as bm25, which takes no settings."""
        from hardneg.registry.plugins import plugin_names

        if (
            name in plugin_names("indexes")
            and not Path(name).exists()
            and load_plugin("indexes", name).input == "texts"
        ):
            return cls(None, PluginSetting(name))
        return cls(name, index, settings)

    @property
    def last(self) -> str:
        """The stage whose result is searched."""
        return VECTORS if self.index is None else INDEX

    @cached_property
    def plain(self) -> Recipe:
        """The recipe without a task, for facts on the model. Raises RecipeError with all mistakes."""
        return self._checked({"dataset": {"name": BEIR, "source": _NONE}, "model": {"name": self.model or _NONE}})

    def recipe(self, task: "TaskMetadata", texts: TaskTexts) -> Recipe:
        """The recipe that indexes a task's corpus.

        The model's prompts are those that its folder has for the task or for tasks of this type, as mteb looks them up;
        else its own for queries and documents. `{task}` in a prompt that was set is the task's instruction.

        Raises:
            RecipeError: the settings have mistakes.
        """
        model: dict[str, Any] = {"name": self.model or _NONE, **self._prompts(task)}
        checked = self._checked({"dataset": {"name": BEIR, "source": task.name}, "model": model}, task)
        dataset = checked.dataset.model_copy(update={"loader": PluginSetting("mteb")})
        stages = {**checked.stages, DATASET: dataset}
        return replace(checked, stages=stages, plugins={**checked.plugins, (DATASET, "loader"): texts})

    def _checked(self, tree: Mapping[str, Any], task: "TaskMetadata | None" = None) -> Recipe:
        def with_task(changed: dict[str, Any]) -> dict[str, Any]:
            model = changed["model"]
            templates = isinstance(model, Mapping) and any(TASK in str(model.get(f"{side}_prompt")) for side in SIDES)
            if not templates or "task" in model:
                return changed
            return {**changed, "model": {**model, "task": instruction(task) if task is not None else _NONE}}

        return checked_tree({**tree, "stages": self._stages}, self.settings, "mteb", with_task)

    @property
    def _stages(self) -> dict[str, Any]:
        encoded = {VECTORS: {"stage": "encode", "precision": "fp32"}} if self.model else {}
        if self.index is None:
            return encoded
        built = {"stage": "index", "backend": {"name": self.index.name, **self.index.options}}
        return {**encoded, INDEX: {**built, "vectors": VECTORS} if self.model else built}

    def _prompts(self, task: "TaskMetadata") -> dict[str, Any]:
        if self.model is None:
            return {}
        own = _own_prompts(ModelSpec(self.model, self.plain.model.revision))
        prompts = {}
        for side in SIDES:
            names = (f"{task.name}-{side}", task.name, f"{task.type}-{side}", task.type)
            if (name := next((name for name in names if name in own), None)) is not None:
                prompts[f"{side}_prompt"] = {"name": name}
        return prompts


def _own_prompts(spec: ModelSpec) -> Mapping[str, str]:
    """All prompts in a model's folder, by name; none where it lies elsewhere."""
    from hardneg.encoders.open.resolved import FolderFamily, resolve

    model = resolve(spec)
    return model.contract.prompts if model.folder is not None and isinstance(model.family, FolderFamily) else {}


def instruction(task: "TaskMetadata") -> str:
    """The instruction of a task, by default that of its type."""
    from mteb.abstasks.abstask import get_abstask_prompt

    said: Any = task.prompt
    if isinstance(said, Mapping):
        said = said.get("query")
    return str(said or get_abstask_prompt(task.name))
