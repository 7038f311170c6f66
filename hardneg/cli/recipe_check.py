"""`hardneg recipe check`: whether a recipe can start here, and how much would come, before anything is fetched."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from hardneg.artifacts import Store
from hardneg.cli.console import say_answer, size
from hardneg.cli.outputs import free_bytes

if TYPE_CHECKING:
    from hardneg.recipe.needs import Need
    from hardneg.recipe.plan import Plan


def check_needs(made: "Plan", store: Store, as_json: bool) -> None:
    """Prints all that the plan needs; exits with the code of the first thing that is missing."""
    from hardneg.recipe.needs import needs

    found = list(needs(made))
    told = _summary(made, store, found)
    say_answer({**told, "needs": [asdict(need) for need in found]}, _lines(found, told), as_json)
    for need in found:
        if need.missing:
            raise typer.Exit(need.exit_code)


def _summary(made: "Plan", store: Store, found: Sequence["Need"]) -> dict[str, Any]:
    from hardneg.recipe.estimate import estimate

    return {
        "recipe": made.recipe.name,
        "preset": made.recipe.preset,
        "ready": not any(need.missing for need in found),
        "ahead": sum(need.ahead for need in found),
        "disk": sum(row.disk for row in estimate(made, store) if not row.cached),
        "free": free_bytes(store.root),
        "store": str(store.root),
    }


def _lines(found: Sequence["Need"], told: dict[str, Any]) -> list[str]:
    lines = [_line(need) for need in found]
    scarce = told["disk"] + told["ahead"] > told["free"]
    lines.append(
        f"to come {size(told['ahead'])}; the run takes about {size(told['disk'])} in {told['store']}, where "
        f"{size(told['free'])} are free{': too little' if scarce else ''}"
    )
    missing = sum(bool(need.missing) for need in found)
    lines.append(f"{missing} of {len(found)} missing" if missing else "ready: all of it is here or can be fetched")
    return lines


def _line(need: "Need") -> str:
    if need.missing:
        return f"missing   {need.kind} {need.subject}: {need.missing}"
    state = "to fetch" if need.ahead else "there"
    sizes = [size(need.ahead)] * bool(need.ahead) + [f"{size(need.there)} are there"] * bool(need.there and need.ahead)
    facts = ", ".join([*sizes, *([need.note] if need.note else [])])
    return f"{state:<8}  {need.kind} {need.subject}{f': {facts}' if facts else ''}"
