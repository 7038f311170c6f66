"""`hardneg.load_recipe`: a recipe of a file, or a shipped one, changed, planned, checked and run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from hardneg.functions import given
from hardneg.functions.arguments import Where, file_path, names_of, spelled_out
from hardneg.functions.evaluate import Evaluation
from hardneg.functions.results import BuiltIndex, TrainedModel
from hardneg.functions.session import Session, planned_recipe, setting_texts
from hardneg.records import INDEX_FOLDER, LOCK, METRICS, MODEL_FOLDER, REPORT_HTML, errors, wording
from hardneg.store import Artifact, Outputs, Target, Words

if TYPE_CHECKING:
    from hardneg.recipes import Estimate, Need, Plan


def load_recipe(name: str | Path, preset: str | None = None) -> "ChosenRecipe":
    """A shipped recipe by its name, or one of a file, to be changed with `set` and then planned, checked or run.

    Args:
        name: as `hardneg recipe list` tells it, or a path.
        preset: `demo` (the default), `paper`, or another that it has.

    Raises:
        UsageError: there is no such recipe, or file.
    """
    from hardneg.recipes import find_recipe

    path = str(file_path(name, "name"))
    find_recipe(path)
    return ChosenRecipe(path, preset)


@dataclass(frozen=True)
class ChosenRecipe:
    """A recipe with what is to be changed in it; each `set` gives another one."""

    name: str
    preset: str | None = None
    settings: tuple[str, ...] = ()
    live: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def set(self, *texts: str, **values: Any) -> "ChosenRecipe":
        """The recipe with other values: texts as `--set` takes them, or names with `__` in place of each dot.

        A dataset may be given in memory, and a model live: `set(dataset={...}, model__name=SentenceTransformer(...))`.
        """

        def is_live(name: str, value: Any) -> bool:
            if name == "dataset":
                plain = isinstance(value, Mapping) and isinstance(value.get("name"), str)
                return not isinstance(value, str) and not plain
            return name.endswith("__name") and hasattr(value, "save_pretrained")

        live = {name: value for name, value in values.items() if is_live(name, value)}
        plain = {name: value for name, value in values.items() if name not in live}
        settings = (*self.settings, *setting_texts(names_of("set", texts), plain))
        return replace(self, settings=settings, live={**self.live, **live})

    @spelled_out
    def plan(self, **where: Unpack[Where]) -> "RecipePlan":
        """What would run, with the items and bytes of each step.

        Raises:
            RecipeError: the recipe has mistakes; all of them are told.
            HardnegError: the dataset or the model is not there.
        """
        from hardneg.recipes import estimate

        session = Session.of(where)
        planned = self._planned(session)
        return RecipePlan(planned, tuple(estimate(planned, session.store)))

    @spelled_out
    def check(self, **where: Unpack[Where]) -> "tuple[Need, ...]":
        """All that a run would need, looked up and not fetched; what cannot be had says so in `missing`.

        Raises:
            ModelError: nothing is missing, and a model or reranker that is here cannot do what the recipe asks of it.
        """
        from hardneg.recipes import needs

        problems, session = list[errors.HardnegError](), Session.of(where)
        needed = tuple(needs(self._planned(session, problems)))
        if problems and not any(need.missing for need in needed):
            raise problems[0]
        return needed

    @spelled_out
    def run(
        self,
        output: str | Path | None = None,
        *,
        until: str | None = None,
        force: Sequence[str] = (),
        overwrite: bool = False,
        **where: Unpack[Where],
    ) -> "RunFolder":
        """Runs it: what the store has is taken, the rest is made, the results stand in the run folder.

        Args:
            output: the run folder; `runs/NAME-PRESET`.
            until: the last stage to make. force: stages to make again, with all that need them.
            overwrite: replace files of these names that are no run's.
            where: what every function takes (`Where`).

        Raises:
            UsageError: the folder is read, or holds files of these names that are no run's.
        """
        from hardneg.recipes import COMMAND, default_folder, inputs_of, names, publish

        session = Session.of(where)
        plan = self._planned(session)
        folder = default_folder(plan.recipe.name, plan.recipe.preset) if output is None else file_path(output, "output")
        target, words = Target(folder, folder=True, names=names(plan), marked_by=LOCK), Words("output", writer="{}")
        Outputs(COMMAND, [target], inputs_of(plan.recipe), session.store, overwrite, words=words).check()
        outcome = session.make(plan, until, force)
        publish(plan, outcome.artifacts, session.store, folder)
        return RunFolder(plan.recipe.name, folder, outcome.artifacts, outcome.ran)

    def _planned(self, session: Session, problems: list[errors.HardnegError] | None = None) -> "Plan":
        named = {
            name: (given.named_dataset if name == "dataset" else given.named_model)(value, session.store)
            for name, value in self.live.items()
        }
        settings = [*session.settings, *self.settings, *setting_texts((), named)]
        return planned_recipe(self.name, self.preset, settings, problems=problems)


@dataclass(frozen=True)
class RecipePlan:
    """The steps of a recipe; rows: for each what it takes, and whether the store has it."""

    plan: "Plan" = field(repr=False)
    rows: "tuple[Estimate, ...]" = field(repr=False)

    @property
    def keys(self) -> dict[str, str]:
        """The key of each step's artifact."""
        return self.plan.keys

    @property
    def ahead(self) -> list[str]:
        """The steps that would run."""
        return [row.step.name for row in self.rows if not row.cached]

    def __repr__(self) -> str:
        steps = f"{len(self.ahead)} of {wording.counted(len(self.rows), 'step')} to run"
        disk = sum(row.disk for row in self.rows if not row.cached)
        return f"RecipePlan({self.plan.recipe.name!r}, {steps}, {wording.size(disk)})"


@dataclass(frozen=True)
class RunFolder:
    """A recipe that has run: its results in a folder, and the artifacts of its steps by name; ran: those made now."""

    name: str
    path: Path
    artifacts: Mapping[str, Artifact] = field(repr=False)
    ran: tuple[str, ...] = field(repr=False)

    def __fspath__(self) -> str:
        return str(self.path)

    @property
    def evaluation(self) -> Evaluation | None:
        """Its metrics, where it has evaluated."""
        from hardneg.evaluation.metrics_json import read_metrics

        return Evaluation(read_metrics(path)) if (path := self.path / METRICS).is_file() else None

    @property
    def model(self) -> TrainedModel | None:
        """The model that it hands out."""
        return TrainedModel(self.name, "", path, {}) if (path := self.path / MODEL_FOLDER).is_dir() else None

    @property
    def index(self) -> BuiltIndex | None:
        """The index that it hands out."""
        return BuiltIndex(self.name, "", path, {}) if (path := self.path / INDEX_FOLDER).is_dir() else None

    @property
    def report(self) -> Path | None:
        """Its report as a page."""
        return path if (path := self.path / REPORT_HTML).is_file() else None

    def __repr__(self) -> str:
        steps = wording.counted(len(self.artifacts), "step")
        return f"RunFolder({self.name!r}, {self.path}, {len(self.ran)} of {steps} ran)"
