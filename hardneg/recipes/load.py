"""Recipes from trees: every part checked, all mistakes reported at once with their paths, stages copied for seeds."""

import dataclasses
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from hardneg.encoders.open.resolved import ResolvedModels
from hardneg.fields import Cut, Model, Name, Reference, each_once, marked_fields, parse_dataset
from hardneg.recipes.language import EXTENDS, NAME, NAME_RULE, PRESETS, RecipeFunction, expand, shipped_recipes
from hardneg.records import DATASET, START, PluginError, RecipeError, complaint, mistakes, suggestion
from hardneg.registry import configure, load_plugin, no_such_option, not_installed, plugin_errors, plugin_names
from hardneg.runtime import SEED
from hardneg.stages import ModelSpec, RecipeView, SeededStages, StageSpec, training
from hardneg.stages.indexing import ReadDataset
from hardneg.training.options import usual_rate

_MOST_STAGES, _MOST_WITH_SEEDS, _MOST_SEEDS = 200, 2_000, 100
_Model = TypeVar("_Model", bound=BaseModel)


def _seed_list(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return {"values": value}
    if not isinstance(value, Mapping | _Seeds):
        raise ValueError("must be a list of seeds, such as [1, 2, 3]")
    return value


class _Seeds(BaseModel):
    """Seeds, and the stages to seed: by default all that train."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    values: Annotated[
        tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1, max_length=_MOST_SEEDS), AfterValidator(each_once)
    ]
    stages: Annotated[tuple[Name, ...], AfterValidator(each_once)] = ()


class DatasetSizes(BaseModel):
    """The stated size of the dataset, a hint for the estimates of a plan."""

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

    stages: every stage by name, `dataset` first, in the order of the file. tree: the merged YAML, for the lock file.
    plugins: each configured plugin by (stage, field). outputs: the stages whose `model` and `index` are published.
    sizes: the dataset's size as the recipe states it. notes: suggestions, one line each. copies: names by seed of each
    stage that is copied for seeds. models: the models resolved for the check. command: the command that runs a recipe
    with its preset and settings; empty for a recipe in memory.
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

    @property
    def dataset(self) -> ReadDataset:
        """The stage that reads the recipe's dataset."""
        return cast(ReadDataset, self.stages[DATASET])

    @property
    def collections(self) -> Mapping[str, ReadDataset]:
        """Every stage that reads a dataset, by name."""
        return {name: spec for name, spec in self.stages.items() if isinstance(spec, ReadDataset)}

    def view(self, name: str) -> RecipeView:
        """The recipe as one of its stages sees it."""
        return RecipeView(name, self.stages, self.plugins, self.model, self.models)


def load_recipe(source: Path | RecipeFunction, preset: str | None = None, settings: Sequence[str] = ()) -> Recipe:
    """Read and check a recipe. Raises RecipeError with all of its mistakes, each with its path."""
    tree, chosen, problems = expand(source, preset, settings)
    own = isinstance(source, Path) and source not in shipped_recipes().values()
    words = [str(source) if own else source.stem, *(["--preset", chosen] if chosen else [])]
    words += [word for setting in settings for word in ("--set", setting)]
    recipe = check_recipe(tree, source, chosen, problems)
    return replace(recipe, command=f"hardneg recipe run {shlex.join(words)}")


def check_recipe(
    tree: Mapping[str, Any], source: Path | RecipeFunction, preset: str = "", earlier: Sequence[str] = ()
) -> Recipe:
    """Check a recipe's tree, read from `source` or built in memory; `earlier`: problems found so far.

    Raises RecipeError with all of its mistakes, each with its path.
    """
    problems = list[str]()
    top: _Top | None = None
    try:
        top = _Top.model_validate(tree)
    except ValidationError as error:
        problems += [_problem("", item, _Top) for item in mistakes(error)]
    stages = dict(_check_stages(tree.get("stages"), top, problems))
    if top is not None:
        stages = {DATASET: top.dataset, **stages}
    written = tree.get("stages")
    known = set(written) if isinstance(written, Mapping) else set[str]()
    plugins, notes = dict[tuple[str, str], Any](), list[str]()
    for name, spec in stages.items():
        for field, kind, setting in spec.plugins():
            try:
                plugins[name, field] = configure(kind, setting)
            except PluginError as error:
                problems.append(f"{'dataset' if name == DATASET else f'stages.{name}.{field}'}: {error}")
    models, model = ResolvedModels(), top.model if top else ModelSpec("")
    try:
        model = models.full(model)
    except PluginError as error:  # an unknown family
        problems.append(f"model.encoder: {error}")
        model = dataclasses.replace(model, encoder=None)
    view = RecipeView("", stages, plugins, model, models)
    with plugin_errors(stages.values()):
        stages |= dict(_at_usual_rates(written, view, notes))
        problems += _reference_problems(view, known)
        problems += [f"stages.{name}.{line}" for name, spec in stages.items() for line in spec.problems(view.at(name))]
        notes += [f"stages.{name}.{line}" for name, spec in stages.items() for line in spec.remarks(view.at(name))]
    problems += seed_problems(stages, tree, top.seeds) if top and top.seeds else []
    named = top.outputs if top else {}
    named = {name: stage for name, stage in named.items() if stage in stages or stage not in known}
    outputs = _outputs(stages, named, problems)
    if earlier or problems or top is None:
        raise RecipeError(f"{source}{f' (preset {preset})' if preset else ''}", [*dict.fromkeys([*earlier, *problems])])
    stages = {name: spec.handing_out(outputs, view.at(name)) for name, spec in stages.items()}
    about = (source.stem, preset, source, top.title or source.stem, top.seed, top.model)
    recipe = Recipe(*about, stages, plugins, outputs, top.sizes, tree, tuple(notes), models=models)
    return over_seeds(recipe, top.seeds) if top.seeds else recipe


def _check_stages(stages: Any, top: _Top | None, problems: list[str]) -> Iterator[tuple[str, StageSpec]]:
    if not isinstance(stages, Mapping) or len(stages) > _MOST_STAGES:
        return
    verbs, outside = plugin_names("stages"), dict[str, list[str]]()
    for name, value in stages.items():
        path = f"stages.{name}"
        if not isinstance(name, str) or not NAME.fullmatch(name):
            problems.append(f"{path:.60}: a stage's name {NAME_RULE}")
        elif name in {START, DATASET}:
            reason = f"`{START}` is the recipe's model and `{DATASET}` its dataset"
            problems.append(f"{path}: the name {name!r} is reserved: {reason}")
        elif not isinstance(value, Mapping) or not isinstance(value.get("stage"), str):
            named = suggestion(name, [other for other in stages if other != name])
            problems.append(f"{path}.stage: missing{named}; one of: {', '.join(verbs)}")
        elif reason := not_installed("stages", value["stage"]):
            outside.setdefault(reason, []).append(name)
        elif value["stage"] not in verbs:
            verb = value["stage"]
            problems.append(f"{path}.stage: no stage {verb!r}{suggestion(verb, verbs)}; one of: {', '.join(verbs)}")
        else:
            try:
                spec = load_plugin("stages", value["stage"])
                yield str(name), spec.model_validate(_with_defaults(spec, value, top) if top else value)
            except PluginError as error:
                problems.append(f"{path}.stage: {error}")
            except ValidationError as error:
                problems += [_problem(path, item, spec) for item in mistakes(error)]
    for reason, (first, *others) in outside.items():
        also = f" (and of {', '.join(others)})" if others else ""
        problems.append(f"stages.{first}.stage{also}: {stages[first]['stage']} is {reason}")


def _problem(path: str, item: Mapping[str, Any], spec: type[BaseModel]) -> str:
    location = [str(part) for part in item["loc"]]
    if location[:2] == [DATASET, "loader"]:
        del location[1]  # in a recipe the loader's options are in `dataset` itself
    where = ".".join([path] * bool(path) + location)
    if item["type"] in {"extra_forbidden", "unexpected_keyword_argument"}:
        key, known = str(item["loc"][-1]), _known_names(spec, item["loc"])
        return f"{where}: {no_such_option(key, known)}"
    absent = "; null does not unset it; remove it" if item["input"] is None and item["type"] != "missing" else ""
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


def _with_defaults(spec: type[StageSpec], value: Mapping[str, Any], top: _Top) -> dict[str, Any]:
    """A stage's mapping with the recipe's seed, title and segments where it inherits them."""
    own: dict[str, Any] = {name: getattr(top, name) for name in spec.inherits if name in spec.model_fields}
    if "options" in spec.model_fields and isinstance(options := value.get("options", {}), Mapping):
        return {**own, **value, "options": {"seed": top.seed, **options}}
    return {**own, **value}


def _at_usual_rates(written: Any, view: RecipeView, notes: list[str]) -> Iterator[tuple[str, StageSpec]]:
    """The stages that train an encoder and give no learning rate, each with the usual one of its model's kind."""
    for name, spec in view.stages.items():
        if not isinstance(spec, training.EncoderOptions) or "learning_rate" in written[name].get("options", {}):
            continue
        model = spec.began_with(view.at(name))
        if rate := usual_rate(view.models.of(model)):
            yield name, spec.model_copy(update={"options": dataclasses.replace(spec.options, learning_rate=rate)})
        else:
            why = f"{spec.options.learning_rate:g} is assumed, as {model.name} has not been downloaded"
            notes.append(f"stages.{name}.options.learning_rate: {why}; download it first if it is a static table")


def _reference_problems(view: RecipeView, written: set[str]) -> list[str]:
    stages, problems = view.stages, []
    for name, spec in stages.items():
        for field, target, need in spec.references():
            where = f"stages.{name}.{field}"
            makes = ("model",) if target == START else stages[target].makes if target in stages else ()
            needed = {*need.artifact_types}
            fitting = [other for other, item in stages.items() if {*item.makes} & needed and other != name]
            wanted = " or ".join(need.artifact_types)
            if not makes and target not in written:
                hint = suggestion(target, fitting) or suggestion(target, stages)
                problems.append(f"{where}: no stage {target!r}{hint}; name one that makes {wanted}")
            elif makes and not {*makes} & needed:
                hint = f"; name one of: {', '.join(fitting)}" if fitting else ""
                problems.append(f"{where}: {target!r} makes {makes[0]}, but {wanted} is needed{hint}")
            traits = view.at(name).traits(target)
            for trait, advice in need.refuses.items():
                if trait in traits:
                    via = "" if traits[trait] == target else f"comes from {traits[trait]!r}, which "
                    problems.append(f"{where}: {target!r} {via}{trait}; {advice}")
    return problems + _cycle_problems(stages)


def _cycle_problems(stages: Mapping[str, StageSpec]) -> list[str]:
    finished, problems = set[str](), list[str]()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        if name in trail:
            problems.append(f"stages.{name}: a cycle: {' → '.join([*trail[trail.index(name) :], name])}")
        elif name in stages and name not in finished:
            for _, target, _ in stages[name].references():
                visit(target, (*trail, name))
            finished.add(name)

    for name in stages:
        visit(name, ())
    return problems[:1]


def _outputs(stages: Mapping[str, StageSpec], named: Mapping[str, str], problems: list[str]) -> dict[str, str]:
    outputs: dict[str, str] = {}
    for name in named.keys() - {"model", "index"}:
        hint = suggestion(name, ["model", "index"])
        problems.append(f"outputs.{name}: no such output{hint}; available: model, index")
    for name in ("model", "index"):
        makers = [stage for stage, spec in stages.items() if name in spec.parts]
        if name in named and named[name] not in makers:
            kind = "an index" if name == "index" else "a model"
            reason = f"{named[name]!r} is not a stage that makes {kind}{suggestion(named[name], makers)}"
            problems.append(f"outputs.{name}: {reason}")
        elif name in named:
            outputs[name] = named[name]
        elif own := [stage for stage in makers if stages[stage].artifact_type == name]:
            outputs[name] = own[-1]
    return outputs


def seed_problems(stages: Mapping[str, StageSpec], tree: Mapping[str, Any], seeds: _Seeds) -> list[str]:
    """Problems of `seeds` with these stages, one line each; `tree`: the recipe as written."""
    problems = []
    for number, name in enumerate(seeds.stages):
        if name not in stages:
            problems.append(f"seeds.stages.{number}: no stage {name!r}{suggestion(name, stages)}")
        elif _seed_path(stages[name]) is None:
            problems.append(f"seeds.stages.{number}: {name!r} (stage {stages[name].verb}) has no seed; remove it")
    drawing = _drawing(stages, seeds)
    if not drawing and not problems:
        problems.append("seeds: no stage of this recipe trains; remove it")
    for name in drawing:
        stage, path = tree["stages"].get(name), _seed_path(stages[name])
        own = stage.get("options") if isinstance(stage, Mapping) and path == "options.seed" else stage
        if isinstance(own, Mapping) and "seed" in own:
            reason = "`seeds` sets this seed too; remove one of them, or name the stages to seed in seeds.stages"
            problems.append(f"stages.{name}.{path}: {reason}")
    copied = _seeded(stages, seeds).copies
    for name, copy in ((name, copy) for name, copies in copied.items() for copy in copies.values()):
        if copy in stages or not NAME.fullmatch(copy):
            why = "which another stage has" if copy in stages else "which is too long"
            problems.append(f"stages.{name}: its copy for a seed would be named {copy!r}, {why}; rename the stage")
    if (count := sum(map(len, copied.values())) + len(stages) - len(copied)) > _MOST_WITH_SEEDS:
        problems.append(f"seeds: makes {count:,} stages; the limit is {_MOST_WITH_SEEDS:,}")
    return problems


def over_seeds(recipe: Recipe, seeds: _Seeds) -> Recipe:
    """The recipe with a copy per seed of each stage that depends on one; outputs are those of the first seed.

    A copy has the key of the stage with its seed set in the recipe. Raises RecipeError if a field cannot name copies.
    """
    seeded = _seeded(recipe.stages, seeds)
    stages = dict(_copied(recipe.stages, seeded, _drawing(recipe.stages, seeds)))
    lost = [
        f"stages.{name}.{path}: cannot name {target!r}, which `seeds` copies; name one of its copies"
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
            reads_all = type(stages[name]).over_seeds is not StageSpec.over_seeds
            named = () if reads_all else (target for _, target, _ in stages[name].references())
            own = frozenset({name} & drawing)
            known[name] = own.union(*(trainings(target, trail | {name}) for target in named))
        return known[name]

    decided = {name: by for name in stages if (by := trainings(name))}
    return SeededStages({name: {seed: f"{name}-seed-{seed}" for seed in seeds.values} for name in decided}, decided)


def _copied(
    stages: Mapping[str, StageSpec], seeded: SeededStages, drawing: Iterable[str]
) -> Iterator[tuple[str, StageSpec]]:
    for name, spec in stages.items():
        if name not in seeded.copies:
            named = any(target in seeded.copies for _, target, _ in spec.references())
            yield name, spec.over_seeds(seeded) if named else spec
        for seed, copy in seeded.copies.get(name, {}).items():
            renamed = with_references(spec, {other: copies[seed] for other, copies in seeded.copies.items()})
            if name in drawing:
                options = getattr(renamed, "options", None)
                own = {"seed": seed} if options is None else {"options": replace(options, seed=seed)}
                renamed = renamed.model_copy(update=own)
            yield copy, renamed


def with_references(model: _Model, names: Mapping[str, str]) -> _Model:
    """Rename the stages in a model's references, nested ones included; `names`: new names by old."""
    marked = {field for field, _, _ in marked_fields(model, Reference)}
    held = {field: getattr(model, field) for field in type(model).model_fields}
    named = {field: _named(value, names, field in marked) for field, value in held.items()}
    return model.model_copy(update={field: value for field, value in named.items() if value is not held[field]})


def _named(value: Any, names: Mapping[str, str], marked: bool) -> Any:
    """A field's value with stages renamed; the same object if nothing changes."""
    if isinstance(value, BaseModel):
        return with_references(value, names)
    if isinstance(value, str) and marked:
        return names.get(value, value)
    if type(value) is dict:
        inner = {key: _named(item, names, marked) for key, item in value.items()}
        return inner if inner != value else value
    if type(value) in (tuple, list):
        return type(value)(_named(item, names, marked) for item in value)
    return value
