"""A tree becomes a recipe: every part checked, every mistake reported at once with its path in the YAML."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, cast, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from hardneg.encoders.open.resolved import ResolvedModels
from hardneg.encoders.spec import ModelSpec
from hardneg.fields import Cut, Model, Name, parse_dataset
from hardneg.recipes.language import EXTENDS, NAME, NAME_RULE, PRESETS, RecipeFunction, expand
from hardneg.recipes.seed_copies import Seeds, over_seeds, seed_problems
from hardneg.records import DATASET, START, PluginError, RecipeError, complaint, mistakes, suggestion
from hardneg.registry import configure, load_plugin, no_such_option, not_installed, plugin_errors, plugin_names
from hardneg.runtime import SEED
from hardneg.stages.base import RecipeView, StageSpec
from hardneg.stages.sources import ReadDataset
from hardneg.stages.training import EncoderOptions
from hardneg.training.options import usual_rate

_MOST_STAGES = 200


class DatasetSizes(BaseModel):
    """How large the dataset is, for the estimates of a plan; never more than a hint."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    documents: int = Field(default=0, ge=0)
    queries: dict[str, int] = Field(default_factory=dict)


class _Top(BaseModel):
    """What stands at the top of a recipe."""

    model_config = ConfigDict(extra="forbid")

    title: str = ""
    dataset: Annotated[ReadDataset, BeforeValidator(parse_dataset)]
    model: Model
    sizes: DatasetSizes = DatasetSizes()
    seed: int = SEED
    seeds: Seeds | None = None
    segments: Cut | None = None
    stages: dict[Name, Any] = Field(min_length=1, max_length=_MOST_STAGES)
    outputs: dict[str, Name] = Field(default_factory=dict)


@dataclass(frozen=True)
class Recipe:
    """A checked recipe.

    stages: every stage by name, `dataset` first; their order is that of the file. tree: the merged YAML, for the lock
    file. plugins: each configured plugin by (stage, field). outputs: which stage's `model` and `index` to hand out.
    sizes: the dataset's size as the recipe states it. notes: what to write otherwise, one line each. copies: of each
    stage that is made once a seed, its names by seed. models: those that were resolved for the check.
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

    @property
    def dataset(self) -> ReadDataset:
        """The stage that reads the dataset."""
        return cast(ReadDataset, self.stages[DATASET])

    @property
    def collections(self) -> Mapping[str, ReadDataset]:
        """Every stage that reads a dataset, by name."""
        return {name: spec for name, spec in self.stages.items() if isinstance(spec, ReadDataset)}

    def view(self, name: str) -> RecipeView:
        """The recipe as one of its stages sees it."""
        return RecipeView(name, self.stages, self.plugins, self.model, self.models)


def load_recipe(source: Path | RecipeFunction, preset: str | None = None, settings: Sequence[str] = ()) -> Recipe:
    """Reads and checks a recipe.

    Raises:
        RecipeError: it has mistakes; all of them are in the message, each with its path.
    """
    tree, chosen, problems = expand(source, preset, settings)
    return check_recipe(tree, source, chosen, problems)


def check_recipe(
    tree: Mapping[str, Any], source: Path | RecipeFunction, preset: str = "", earlier: Sequence[str] = ()
) -> Recipe:
    """A recipe from its tree, be it read from `source` or made in memory; `earlier` are the problems met so far."""
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
            reason = f"`{START}` is the recipe's model, `{DATASET}` its dataset"
            problems.append(f"{path}: the name {name!r} is taken: {reason}")
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
        del location[1]  # in a recipe the loader's options stand in `dataset` itself
    where = ".".join([path] * bool(path) + location)
    if item["type"] in {"extra_forbidden", "unexpected_keyword_argument"}:
        key, known = str(item["loc"][-1]), _known_names(spec, item["loc"])
        return f"{where}: {no_such_option(key, known)}"
    absent = "; null takes nothing away: leave it out" if item["input"] is None and item["type"] != "missing" else ""
    return f"{where}: {complaint(item)}{absent}"


def _known_names(spec: type[BaseModel], location: Sequence[Any]) -> list[str]:
    """The options of the innermost part of the spec on the way to a location."""
    options: type[Any] = spec
    for name in location[:-1]:
        fields = options.model_fields if issubclass(options, BaseModel) else {}
        options = next(_parts(fields[name].annotation), options) if name in fields else options
    if issubclass(options, BaseModel):
        return [*options.model_fields, *((EXTENDS, PRESETS) if options is _Top else ())]
    return [field.name for field in dataclasses.fields(options)]


def _parts(annotation: Any) -> Iterator[type[Any]]:
    """The classes in a type that have options of their own."""
    if isinstance(annotation, type) and (issubclass(annotation, BaseModel) or dataclasses.is_dataclass(annotation)):
        yield annotation
    for inner in get_args(annotation):
        yield from _parts(inner)


def _with_defaults(spec: type[StageSpec], value: Mapping[str, Any], top: _Top) -> dict[str, Any]:
    """The recipe's seed where a stage draws, title on a report, and segments, where the stage has none of its own."""
    own: dict[str, Any] = {name: getattr(top, name) for name in spec.inherits if name in spec.model_fields}
    if "options" in spec.model_fields and isinstance(options := value.get("options", {}), Mapping):
        return {**own, **value, "options": {"seed": top.seed, **options}}
    return {**own, **value}


def _at_usual_rates(written: Any, view: RecipeView, notes: list[str]) -> Iterator[tuple[str, StageSpec]]:
    """The stages that train an encoder and give no learning rate, each with that of its model's kind."""
    for name, spec in view.stages.items():
        if not isinstance(spec, EncoderOptions) or "learning_rate" in written[name].get("options", {}):
            continue
        model = spec.began_with(view.at(name))
        if rate := usual_rate(view.models.of(model)):
            yield name, spec.model_copy(update={"options": dataclasses.replace(spec.options, learning_rate=rate)})
        else:
            why = f"{spec.options.learning_rate:g} is taken, as nothing is known of {model.name} before it is fetched"
            notes.append(f"stages.{name}.options.learning_rate: {why}; fetch it first if it is a static table")


def _reference_problems(view: RecipeView, written: set[str]) -> list[str]:
    """The problems of references between stages, one line each; `written`: all names in the recipe."""
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
                problems.append(f"{where}: no stage {target!r}{hint}; it needs one that makes {wanted}")
            elif makes and not {*makes} & needed:
                hint = f"; such are: {', '.join(fitting)}" if fitting else ""
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
            problems.append(f"stages.{name}: a circle: {' → '.join([*trail[trail.index(name) :], name])}")
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
        problems.append(f"outputs.{name}: no such output{hint}; it has: model, index")
    for name in ("model", "index"):
        makers = [stage for stage, spec in stages.items() if name in spec.parts]
        if name in named and named[name] not in makers:
            reason = f"{named[name]!r} is no stage that makes a {name}{suggestion(named[name], makers)}"
            problems.append(f"outputs.{name}: {reason}")
        elif name in named:
            outputs[name] = named[name]
        elif own := [stage for stage in makers if stages[stage].artifact_type == name]:
            outputs[name] = own[-1]
    return outputs
