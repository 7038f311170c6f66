"""References between a recipe's stages: each leads to a stage that makes, in the right form, what is asked of it."""

from collections.abc import Mapping

from hardneg.fields import START
from hardneg.registry import suggestion
from hardneg.stages.spec import RecipeView, StageSpec


def reference_problems(view: RecipeView, written: set[str]) -> list[str]:
    """What is wrong with the stages that stages name, one line each; `written`: all names in the recipe."""
    stages, problems = view.stages, []
    for name, spec in stages.items():
        for field, target, need in spec.references():
            where = f"stages.{name}.{field}"
            made = ("model",) if target == START else stages[target].makes if target in stages else ()
            fitting = [other for other, item in stages.items() if {*item.makes} & {*need.kinds} and other != name]
            if not made and target not in written:
                hint = suggestion(target, fitting) or suggestion(target, stages)
                problems.append(
                    f"{where}: no stage {target!r}{hint}; it needs one that makes {' or '.join(need.kinds)}"
                )
            elif made and not {*made} & {*need.kinds}:
                hint = f"; such are: {', '.join(fitting)}" if fitting else ""
                problems.append(f"{where}: {target!r} makes {made[0]}, but {' or '.join(need.kinds)} is needed{hint}")
            traits = view.at(name).traits(target)
            for trait, advice in need.refuses.items():
                if trait in traits:
                    via = "" if traits[trait] == target else f"comes from {traits[trait]!r}, which "
                    problems.append(f"{where}: {target!r} {via}{trait}; {advice}")
    return problems + _cycle_problems(stages)


def _cycle_problems(stages: Mapping[str, StageSpec]) -> list[str]:
    finished: set[str] = set()
    problems: list[str] = []

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
