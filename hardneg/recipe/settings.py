"""`--set`: values put into a recipe's tree by their paths."""

from collections.abc import Mapping, Sequence
from typing import Any

from hardneg.recipe.yaml_load import parse_setting
from hardneg.records.wording import suggestion

_MOST_DOTS = 20
_REPLACES = {
    "epochs": {"max_steps", "stop_at"},
    "max_steps": {"epochs", "stop_at"},
    "warmup_ratio": {"warmup_steps"},
    "warmup_steps": {"warmup_ratio"},
}
"""Other ways to set how long a training or its warm-up is: the later one replaces them."""


def apply_settings(tree: Mapping[str, Any], settings: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """The tree with each `a.b=value` set, and the problems met; a value is read as YAML."""
    problems: list[str] = []
    changed, written = dict(tree), {setting.partition("=")[0] for setting in settings}
    for number, setting in enumerate(settings):
        path, equals, text = setting.partition("=")
        if lost := next((each for each in settings[:number] if each.startswith(f"{path}.")), None):
            problems.append(f"set {path}: would replace {lost}, which stands before it: give it first")
        if not equals or not path or path.count(".") > _MOST_DOTS:
            problems.append(f"set {setting}: must be of the form path.to.key=value")
            continue
        try:
            value = parse_setting(text)
        except ValueError as error:
            problems.append(f"set {path}: {error}")
            continue
        changed = _set(changed, path.split("."), value)
        *parents, key = path.split(".")
        for other in replaced({key: value}):
            if ".".join([*parents, other]) not in written:
                changed = _without(changed, [*parents, other])
    return _without_strays(changed, tree, settings, problems), problems


def replaced(changes: Mapping[str, Any]) -> set[str]:
    """The keys that a mapping's own replace, as they set the same thing in another way."""
    written = {key for key, value in changes.items() if isinstance(value, int | float | str)}
    return set().union(*(_REPLACES[key] for key in written & _REPLACES.keys())) - changes.keys()


def _without_strays(
    changed: dict[str, Any], before: Mapping[str, Any], settings: Sequence[str], problems: list[str]
) -> dict[str, Any]:
    """The tree less the stages that a misspelt `--set stages.NAME.KEY=...` has begun: they have no verb."""
    known, stages = before.get("stages"), changed.get("stages")
    if not isinstance(known, Mapping) or not isinstance(stages, Mapping):
        return changed
    strays = set()
    for path in (setting.partition("=")[0] for setting in settings):
        top, _, rest = path.partition(".")
        name, inside, _ = rest.partition(".")
        if top == "stages" and inside and name not in known and "stage" not in (stages.get(name) or ()):
            reason = f"no stage {name!r}{suggestion(name, known)}; there are: {', '.join(map(str, known))}"
            problems.append(f"set {path}: {reason}")
            strays.add(name)
    return {**changed, "stages": {name: value for name, value in stages.items() if name not in strays}}


def _set(tree: Any, path: list[str], value: Any) -> dict[str, Any]:
    branch: dict[str, Any] = dict(tree) if isinstance(tree, Mapping) else {}
    if isinstance(tree, str):  # a short form (`star`, `beir:PATH`, a model's name) becomes its long form
        name, colon, source = tree.partition(":")
        branch = {"name": tree} if not colon or name == "packaged" else {"name": name, "source": source}
    branch[path[0]] = _set(branch.get(path[0]), path[1:], value) if len(path) > 1 else value
    return branch


def _without(tree: Any, path: list[str]) -> Any:
    if not isinstance(tree, Mapping) or path[0] not in tree:
        return tree
    rest = {key: value for key, value in tree.items() if key != path[0]}
    return rest if len(path) == 1 else {**tree, path[0]: _without(tree[path[0]], path[1:])}
