"""`seeds:` of a recipe: trainings run once a seed, and so does all that depends on them; the rest runs once.

A copy of a stage is the stage with its seed, so it has the key that it has where the seed is written into the recipe.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from hardneg.fields import Name, Reference, each_once, marked_fields
from hardneg.recipes.language import NAME
from hardneg.records import RecipeError, suggestion
from hardneg.stages.base import SeededStages, StageSpec

if TYPE_CHECKING:
    from hardneg.recipes.load import Recipe

_Model = TypeVar("_Model", bound=BaseModel)
_MOST_STAGES = 2_000
_MOST_SEEDS = 100


def _listed(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return {"values": value}
    if not isinstance(value, Mapping | _Seeds):
        raise ValueError("must be a list of seeds, such as [1, 2, 3]")
    return value


class _Seeds(BaseModel):
    """The seeds, and the stages that have them: those that are named, or else all that train."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    values: Annotated[
        tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1, max_length=_MOST_SEEDS), AfterValidator(each_once)
    ]
    stages: Annotated[tuple[Name, ...], AfterValidator(each_once)] = ()


Seeds = Annotated[_Seeds, BeforeValidator(_listed)]


def seed_problems(stages: Mapping[str, StageSpec], tree: Mapping[str, Any], seeds: _Seeds) -> list[str]:
    """The problems of `seeds` with these stages, one line each; `tree`: the recipe as written."""
    problems = []
    for number, name in enumerate(seeds.stages):
        if name not in stages:
            problems.append(f"seeds.stages.{number}: no stage {name!r}{suggestion(name, stages)}")
        elif _seed_path(stages[name]) is None:
            problems.append(f"seeds.stages.{number}: {name!r} (stage {stages[name].verb}) draws nothing: leave it out")
    drawing = _drawing(stages, seeds)
    if not drawing and not problems:
        problems.append("seeds: no stage of this recipe trains: leave it out")
    for name in drawing:
        stage, path = tree["stages"].get(name), _seed_path(stages[name])
        own = stage.get("options") if isinstance(stage, Mapping) and path == "options.seed" else stage
        if isinstance(own, Mapping) and "seed" in own:
            reason = "`seeds` gives this stage its seed: leave this out, or name the stages to seed in seeds.stages"
            problems.append(f"stages.{name}.{path}: {reason}")
    copied = _seeded(stages, seeds).copies
    for name, copy in ((name, copy) for name, copies in copied.items() for copy in copies.values()):
        if copy in stages or not NAME.fullmatch(copy):
            why = "a stage of that name is there already" if copy in stages else "that is too long"
            problems.append(f"stages.{name}: with a seed it is called {copy!r}, and {why}: name it otherwise")
    if (count := sum(map(len, copied.values())) + len(stages) - len(copied)) > _MOST_STAGES:
        problems.append(f"seeds: comes to {count:,} stages; {_MOST_STAGES:,} is the most")
    return problems


def over_seeds(recipe: "Recipe", seeds: _Seeds) -> "Recipe":
    """The recipe with a copy for each seed of every stage that one decides; outputs are those of the first seed.

    Raises:
        RecipeError: a verb refers to another stage in a field that is no reference.
    """
    seeded = _seeded(recipe.stages, seeds)
    stages = dict(_copied(recipe.stages, seeded, _drawing(recipe.stages, seeds)))
    # a verb, or a row of one seed, cannot name all that is made once a seed
    lost = [
        f"stages.{name}.{path}: {target!r} is made once a seed, which cannot stand here"
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
    """Where a stage's seed is; None where it draws nothing."""
    if hasattr(getattr(spec, "options", None), "seed"):
        return "options.seed"
    return "seed" if "seed" in type(spec).model_fields else None


def _drawing(stages: Mapping[str, StageSpec], seeds: _Seeds) -> list[str]:
    """The stages that have another seed each time."""
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
    """All stages in their order, the copies of each one after another."""
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
    """The same with other stages in its references, also in those of its parts; `names`: the new names by the old."""
    marked = {field for field, _, _ in marked_fields(model, Reference)}
    held = {field: getattr(model, field) for field in type(model).model_fields}
    named = {field: _named(value, names, field in marked) for field, value in held.items()}
    return model.model_copy(update={field: value for field, value in named.items() if value is not held[field]})


def _named(value: Any, names: Mapping[str, str], marked: bool) -> Any:
    """A field's value with other names where it is marked; the value itself where nothing in it is named otherwise."""
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
