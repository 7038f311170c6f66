"""Check recipes, reporting all mistakes at once with their paths, and copy the stages that depend on seeds."""

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, cast, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from hardneg.encoders.open.resolved import ResolvedModels
from hardneg.fields import Cut, Model, Name, Reference, each_once, parse_dataset
from hardneg.recipes.language import EXTENDS, NAME, NAME_RULE, PRESETS, RecipeFunction, expand, run_command
from hardneg.records import DATASET, START, PluginError, RecipeError, complaint, mistakes, suggestion
from hardneg.registry import configure, load_plugin, no_such_option, not_installed, plugin_errors, plugin_names
from hardneg.runtime import SEED
from hardneg.stages import ModelSpec, RecipeView, SeededStages, StageSpec
from hardneg.stages.indexing import ReadDataset

_MOST_STAGES, _MOST_WITH_SEEDS, _MOST_SEEDS = 200, 2_000, 100


def _seed_list(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return {"values": value}
    if not isinstance(value, Mapping | _Seeds):
        raise ValueError("must be a list of seeds, such as [1, 2, 3]")
    return value


class _Seeds(BaseModel):
    """Seeds, and the stages to run once per seed: by default, all that train."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    values: Annotated[
        tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1, max_length=_MOST_SEEDS), AfterValidator(each_once)
    ]
    stages: Annotated[tuple[Name, ...], AfterValidator(each_once)] = ()


class DatasetSizes(BaseModel):
    """The size of the dataset as stated in the recipe, for estimates: documents (0 if unknown) and queries by split."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    documents: int = Field(default=0, ge=0)
    queries: dict[str, int] = Field(default_factory=dict)


class _Top(BaseModel):
    model_config = ConfigDict(extra="forbid")

    title: str = ""
    dataset: Annotated[ReadDataset, BeforeValidator(parse_dataset)]
    model: Model
    sizes: DatasetSizes = DatasetSizes()
    seed: int = SEED
    seeds: Annotated[_Seeds, BeforeValidator(_seed_list)] | None = None
    segments: Cut | None = None
    stages: dict[Name, Any] = Field(min_length=1, max_length=_MOST_STAGES)
    outputs: dict[str, Name] = Field(default_factory=dict)


@dataclass(frozen=True)
class Recipe:
    """A checked recipe.

    stages: all stages by name, in file order with `dataset` first. tree: the merged YAML, for the lock file. plugins:
    configured plugins by (stage, field). outputs: the stages whose `model` and `index` are published. sizes: the
    dataset size stated in the recipe. notes: suggestions, one line each. copies: for each stage copied for seeds, the
    names of the copies by seed. models: the models resolved for the check. command: the command that runs the recipe
    with its preset and settings; empty for a recipe in memory. locked: keys by step, if the recipe is a lock file,
    which are used for steps that need a missing file, model or dataset.
    """

    name: str
    preset: str
    source: Path | RecipeFunction
    title: str
    seed: int
    model: ModelSpec
    stages: Mapping[str, StageSpec]
    plugins: Mapping[tuple[str, str], Any]
    outputs: Mapping[str, str]
    sizes: DatasetSizes
    tree: Mapping[str, Any]
    notes: tuple[str, ...] = ()
    copies: Mapping[str, Mapping[int, str]] = dataclasses.field(default_factory=dict)
    models: ResolvedModels = dataclasses.field(default_factory=ResolvedModels, repr=False, compare=False)
    command: str = ""
    locked: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def dataset(self) -> ReadDataset:
        """The stage that reads the recipe's dataset."""
        return cast(ReadDataset, self.stages[DATASET])

    @property
    def collections(self) -> Mapping[str, ReadDataset]:
        """Every stage that reads a dataset, by name."""
        return {name: spec for name, spec in self.stages.items() if isinstance(spec, ReadDataset)}

    def view(self, name: str) -> RecipeView:
        """Return the recipe as seen from the stage `name`."""
        return RecipeView(name, self.stages, self.plugins, self.model, self.models, self.outputs)


def load_recipe(source: Path | RecipeFunction, preset: str | None = None, settings: Sequence[str] = ()) -> Recipe:
    """Read and check a recipe. Raises RecipeError with all mistakes and their paths."""
    tree, chosen, problems, locked = expand(source, preset, settings)
    recipe = check_recipe(tree, source, chosen, problems)
    return replace(recipe, command=run_command(source, chosen, settings), locked=locked)


def check_recipe(
    tree: Mapping[str, Any], source: Path | RecipeFunction, preset: str = "", earlier: Sequence[str] = ()
) -> Recipe:
    """Check a recipe's tree, read from `source` or built in memory, and return the recipe.

    earlier: problems found before. Raises RecipeError with all mistakes and their paths.
    """
    problems, notes = list[str](), list[str]()
    top: _Top | None = None
    try:
        top = _Top.model_validate(tree)
    except ValidationError as error:
        problems += [_problem("", item, _Top) for item in mistakes(error)]
    written: Mapping[str, Any] = tree["stages"] if isinstance(tree.get("stages"), Mapping) else {}
    stages: dict[str, StageSpec] = {DATASET: top.dataset} if top is not None else {}
    stages |= _checked_stages(written, top, problems) if len(written) <= _MOST_STAGES else {}
    plugins, models, model = dict[tuple[str, str], Any](), ResolvedModels(), top.model if top else ModelSpec("")
    for name, spec in stages.items():
        for field, kind, setting in spec.plugins():
            try:
                plugins[name, field] = configure(kind, setting)
            except PluginError as error:
                problems.append(f"{'dataset' if name == DATASET else f'stages.{name}.{field}'}: {error}")
    try:
        model = models.full(model)
    except PluginError as error:  # an unknown family
        problems.append(f"model.encoder: {error}")
        model = replace(model, encoder=None)
    of_outputs = list[str]()
    outputs = _outputs(stages, top.outputs if top else {}, written, of_outputs)
    view = RecipeView("", stages, plugins, model, models, outputs)
    with plugin_errors(stages.values()):
        for name, spec in stages.items():
            lines = list[str]()
            stages[name] = spec.completed(replace(view, name=name), written.get(name, {}), lines)
            notes += [f"stages.{name}.{line}" for line in lines]
        problems += _reference_problems(view, written)
        for name, spec in stages.items():
            problems += [f"stages.{name}.{line}" for line in spec.problems(replace(view, name=name))]
    problems += [*(seed_problems(stages, tree, top.seeds) if top and top.seeds else []), *of_outputs]
    if earlier or problems or top is None:
        raise RecipeError(f"{source}{f' (preset {preset})' if preset else ''}", [*dict.fromkeys([*earlier, *problems])])
    about = (source.stem, preset, source, top.title or source.stem, top.seed, top.model)
    recipe = Recipe(*about, stages, plugins, outputs, top.sizes, tree, tuple(notes), models=models)
    return over_seeds(recipe, top.seeds) if top.seeds else recipe


def _checked_stages(written: Mapping[str, Any], top: _Top | None, problems: list[str]) -> dict[str, StageSpec]:
    """Return the valid stages, with the seed, title and segments that they inherit from the recipe."""
    stages, outside = dict[str, StageSpec](), dict[str, list[str]]()
    for name, value in written.items():
        path, verb = f"stages.{name}", value.get("stage") if isinstance(value, Mapping) else None
        if not isinstance(name, str) or not NAME.fullmatch(name):
            problems.append(f"{path:.60}: the name of a stage {NAME_RULE}")
        elif name in {START, DATASET}:
            reason = f"`{START}` refers to the recipe's model and `{DATASET}` to its dataset"
            problems.append(f"{path}: the name {name!r} is reserved, as {reason}")
        elif not isinstance(verb, str):
            named = suggestion(name, [other for other in written if other != name])
            problems.append(f"{path}.stage: missing{named}; available: {', '.join(plugin_names('stages'))}")
        elif verb not in (verbs := plugin_names("stages")):
            if reason := not_installed("stages", verb):
                outside.setdefault(f"{verb} is {reason}", []).append(name)
            else:
                hint = f"{suggestion(verb, verbs)}; available: {', '.join(verbs)}"
                problems.append(f"{path}.stage: no stage {verb!r}{hint}")
        else:
            try:
                spec = load_plugin("stages", verb)
                given = {each: getattr(top, each) for each in spec.inherits if top and each in spec.model_fields}
                given |= value
                if top and "options" in spec.model_fields and isinstance(own := value.get("options", {}), Mapping):
                    given["options"] = {"seed": top.seed, **own}
                stages[name] = spec.model_validate(given)
            except PluginError as error:
                problems.append(f"{path}.stage: {error}")
            except ValidationError as error:
                problems += [_problem(path, item, spec) for item in mistakes(error)]
    for reason, (first, *others) in outside.items():
        also = f" (also of {', '.join(others)})" if others else ""
        problems.append(f"stages.{first}.stage{also}: {reason}")
    return stages


def _problem(path: str, item: Mapping[str, Any], spec: type[BaseModel]) -> str:
    location = [str(part) for part in item["loc"]]
    if location[:2] == [DATASET, "loader"]:
        del location[1]  # in a recipe the loader's options are in `dataset` itself
    where = ".".join([path] * bool(path) + location)
    if item["type"] in {"extra_forbidden", "unexpected_keyword_argument"}:
        key, known = str(item["loc"][-1]), _known_names(spec, item["loc"])
        return f"{where}: {no_such_option(key, known)}"
    absent = "; to unset it, remove it instead" if item["input"] is None and item["type"] != "missing" else ""
    return f"{where}: {complaint(item)}{absent}"


def _known_names(spec: type[BaseModel], location: Sequence[Any]) -> list[str]:
    options: type[Any] = spec
    for name in location[:-1]:
        fields = options.model_fields if issubclass(options, BaseModel) else {}
        options = next(_parts(fields[name].annotation), options) if name in fields else options
    if issubclass(options, BaseModel):
        return [*options.model_fields, *((EXTENDS, PRESETS) if options is _Top else ())]
    return [field.name for field in dataclasses.fields(options)]


def _parts(annotation: Any) -> Iterator[type[Any]]:
    if isinstance(annotation, type) and (issubclass(annotation, BaseModel) or dataclasses.is_dataclass(annotation)):
        yield annotation
    for inner in get_args(annotation):
        yield from _parts(inner)


def _reference_problems(view: RecipeView, written: Collection[str]) -> list[str]:
    stages, problems = view.stages, []
    for name, spec in stages.items():
        for field, target, need in spec.references():
            where = f"stages.{name}.{field}"
            makes = ["model"] if target == START else [*stages[target].parts] if target in stages else []
            needed = {*need.artifact_types}
            fitting = [other for other, item in stages.items() if item.parts.keys() & needed and other != name]
            wanted = " or ".join(need.artifact_types)
            if not makes and target not in written:
                hint = suggestion(target, fitting) or suggestion(target, stages)
                problems.append(f"{where}: no stage {target!r}{hint}; expected a stage of type {wanted}")
            elif makes and not {*makes} & needed:
                hint = f"; available: {', '.join(fitting)}" if fitting else ""
                problems.append(f"{where}: {target!r} is of type {makes[0]}, expected {wanted}{hint}")
            traits = replace(view, name=name).traits(target) if need.refuses else {}
            for trait, advice in need.refuses.items():
                if trait in traits:
                    via = "" if traits[trait] == target else f"comes from {traits[trait]!r}, which "
                    problems.append(f"{where}: {target!r} {via}{trait}; {advice}")
    try:
        in_order(stages)
    except RecipeError as error:
        problems += error.problems
    return problems


def in_order(stages: Mapping[str, StageSpec]) -> list[str]:
    """Sort the names of stages so that each follows all stages that it refers to. Raises RecipeError for a cycle."""
    ordered = dict[str, None]()
    for name in stages:
        trail = [name]
        while trail:
            ahead = (target for _, target, _ in stages[trail[-1]].references() if target in stages)
            if (before := next((target for target in ahead if target not in ordered), None)) is None:
                ordered[trail.pop()] = None
            elif before in trail:
                cycle = " → ".join([*trail[trail.index(before) :], before])
                raise RecipeError("recipe", [f"stages.{before}: depends on itself ({cycle})"])
            else:
                trail.append(before)
    return list(ordered)


def _outputs(
    stages: Mapping[str, StageSpec], chosen: Mapping[str, str], written: Collection[str], problems: list[str]
) -> dict[str, str]:
    named = {name: stage for name, stage in chosen.items() if stage in stages or stage not in written}
    outputs: dict[str, str] = {}
    for name in named.keys() - {"model", "index"}:
        hint = suggestion(name, ["model", "index"])
        problems.append(f"outputs.{name}: no such output{hint}; available: model, index")
    for name in ("model", "index"):
        makers = [stage for stage, spec in stages.items() if name in spec.parts]
        if name in named and named[name] not in makers:
            kind = "an index" if name == "index" else "a model"
            reason = f"{named[name]!r} is not a stage that creates {kind}{suggestion(named[name], makers)}"
            problems.append(f"outputs.{name}: {reason}")
        elif name in named:
            outputs[name] = named[name]
        elif own := [stage for stage in makers if stages[stage].artifact_type == name]:
            outputs[name] = own[-1]
    return outputs


def seed_problems(stages: Mapping[str, StageSpec], tree: Mapping[str, Any], seeds: _Seeds) -> list[str]:
    """Return the problems with `seeds` for these stages, one line each. tree: the recipe as written."""
    problems = []
    for number, name in enumerate(seeds.stages):
        if name not in stages:
            problems.append(f"seeds.stages.{number}: no stage {name!r}{suggestion(name, stages)}")
        elif _seed_path(stages[name]) is None:
            problems.append(f"seeds.stages.{number}: {name!r} (stage {stages[name].stage}) has no seed; remove it")
    drawing = _drawing(stages, seeds)
    if not drawing and not problems:
        problems.append("seeds: no stage of this recipe trains; remove `seeds`")
    for name in drawing:
        stage, path = tree["stages"].get(name), _seed_path(stages[name])
        own = stage.get("options") if isinstance(stage, Mapping) and path == "options.seed" else stage
        if isinstance(own, Mapping) and "seed" in own:
            reason = "also set by `seeds`; remove one of the two, or list the stages to seed in seeds.stages"
            problems.append(f"stages.{name}.{path}: {reason}")
    copied = _seeded(stages, seeds).copies
    for name, copy in ((name, copy) for name, copies in copied.items() for copy in copies.values()):
        if copy in stages or not NAME.fullmatch(copy):
            why = "which is already taken" if copy in stages else "which is too long"
            problems.append(f"stages.{name}: its copy for a seed would be named {copy!r}, {why}; rename the stage")
    if (count := sum(map(len, copied.values())) + len(stages) - len(copied)) > _MOST_WITH_SEEDS:
        problems.append(f"seeds: expands the recipe to {count:,} stages; the limit is {_MOST_WITH_SEEDS:,}")
    return problems


def over_seeds(recipe: Recipe, seeds: _Seeds) -> Recipe:
    """Copy each seed-dependent stage of a recipe once per seed; the outputs come from the first seed.

    A copy has the key that the stage would have with that seed. Raises RecipeError if a field cannot refer to copies.
    """
    seeded, drawing, stages = _seeded(recipe.stages, seeds), _drawing(recipe.stages, seeds), dict[str, StageSpec]()
    for name, spec in recipe.stages.items():
        if name not in seeded.copies:
            view, named = replace(recipe.view(name), seeded=seeded), (target for _, target, _ in spec.references())
            again = any(target in seeded.copies for target in named)
            stages[name] = spec.completed(view, recipe.tree["stages"].get(name, {}), []) if again else spec
        for seed, copy in seeded.copies.get(name, {}).items():
            renamed = with_references(spec, {other: copies[seed] for other, copies in seeded.copies.items()})
            if name in drawing:
                options = getattr(renamed, "options", None)
                own = {"seed": seed} if options is None else {"options": replace(options, seed=seed)}
                renamed = renamed.model_copy(update=own)
            stages[copy] = renamed
    lost = [
        f"stages.{name}.{path}: cannot refer to {target!r}, which `seeds` copies; use one of its copies"
        for name, spec in stages.items()
        for path, target, _ in spec.references()
        if target in seeded.copies
    ]
    if lost:
        raise RecipeError(str(recipe.source), lost)
    plugins = {
        (copy, field): plugin
        for (name, field), plugin in recipe.plugins.items()
        for copy in seeded.copies.get(name, {0: name}).values()
    }
    first = {name: next(iter(copies.values())) for name, copies in seeded.copies.items()}
    outputs = {output: first.get(name, name) for output, name in recipe.outputs.items()}
    return replace(recipe, stages=stages, plugins=plugins, outputs=outputs, copies=seeded.copies)


def _seed_path(spec: StageSpec) -> str | None:
    if hasattr(getattr(spec, "options", None), "seed"):
        return "options.seed"
    return "seed" if "seed" in type(spec).model_fields else None


def _drawing(stages: Mapping[str, StageSpec], seeds: _Seeds) -> list[str]:
    if seeds.stages:
        return [name for name in seeds.stages if name in stages and _seed_path(stages[name])]
    return [name for name, spec in stages.items() if _seed_path(spec) == "options.seed"]


def _seeded(stages: Mapping[str, StageSpec], seeds: _Seeds) -> SeededStages:
    drawing, known = set(_drawing(stages, seeds)), dict[str, frozenset[str]]()

    def trainings(name: str, trail: frozenset[str] = frozenset()) -> frozenset[str]:
        if name not in stages or name in trail:
            return frozenset()
        if name not in known:
            named = () if stages[name].reads_all_seeds else (target for _, target, _ in stages[name].references())
            own = frozenset({name} & drawing)
            known[name] = own.union(*(trainings(target, trail | {name}) for target in named))
        return known[name]

    decided = {name: by for name in stages if (by := trainings(name))}
    copies = {name: {seed: f"{name}-seed-{seed}" for seed in seeds.values} for name in decided}
    return SeededStages(copies, decided)


def with_references(value: Any, names: Mapping[str, str], marked: bool = False) -> Any:
    """Return a value in which the stages that pydantic models refer to, at any depth, are renamed.

    names: new names by old name. marked: whether strings in `value` itself are references.
    """
    if isinstance(value, BaseModel):
        renamed = dict[str, Any]()
        for field, info in type(value).model_fields.items():
            held, refers = getattr(value, field), any(isinstance(mark, Reference) for mark in info.metadata)
            if (named := with_references(held, names, refers)) is not held:
                renamed[field] = named
        return value.model_copy(update=renamed)
    if isinstance(value, str) and marked:
        return names.get(value, value)
    if type(value) is dict:
        inner = {key: with_references(item, names, marked) for key, item in value.items()}
        return inner if inner != value else value
    if type(value) in (tuple, list):
        return type(value)(with_references(item, names, marked) for item in value)
    return value
