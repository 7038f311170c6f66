"""`hardneg recipe plan`: steps, keys, which are stored, items and bytes; and what other commands of recipes share."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from hardneg.api.adhoc_recipe import planned_recipe
from hardneg.cli import completion
from hardneg.cli.console import print_table, say, say_json, stdout_console
from hardneg.cli.options import JSON, STORE, open_store, output, tell_once
from hardneg.cli.planned_work import free_bytes, plan_outputs
from hardneg.records.errors import HardnegError, UsageError
from hardneg.records.layout import LOCK, START
from hardneg.records.wording import counted, duration, size
from hardneg.report.table import Table
from hardneg.store.artifacts import Store
from hardneg.store.replaced_files import Outputs, Target

if TYPE_CHECKING:
    from hardneg.api.workplace import Workplace
    from hardneg.encoders.open.resolved import ResolvedModel
    from hardneg.recipe.estimate import Estimate
    from hardneg.recipe.plan import Plan


NAME = typer.Argument(help="A recipe's name, or the path of a recipe file.", autocompletion=completion.recipes)
PRESET = typer.Option(
    None,
    "--preset",
    "-p",
    help="`demo` (the default: minutes, no network), `paper`, or another preset of the recipe.",
    autocompletion=completion.presets,
)
SET = typer.Option(
    [],
    "--set",
    metavar="PATH=VALUE",
    help="Change one value, such as stages.star.options.epochs=2.",
    autocompletion=completion.settings,
)


_SHOWN = 8  # letters of a key


def planned(name: str, preset: str | None, settings: list[str], problems: list[HardnegError] | None = None) -> "Plan":
    """The plan of a recipe; prints its notes."""
    return planned_recipe(name, preset, settings, tell_once, problems)


def check_stages(plan: "Plan", until: str | None, force: Sequence[str] = ()) -> None:
    """All mistakes in the names of stages, before anything is printed or made."""
    named = [("--until", until), *(("--force", name) for name in force)]
    problems = []
    for option, name in named:
        try:
            plan.until(name)
        except UsageError as error:
            problems.append(f"{option} {name}: {error}")
    if problems:
        raise UsageError("\n".join(problems))


def headline(plan: "Plan") -> str:
    """The recipe's name and preset, and the others that it has."""
    from hardneg.recipe.language import preset_names

    others = [preset for preset in preset_names(plan.recipe.source) if preset != plan.recipe.preset]
    other = f"; the other{'s' if others[1:] else ''}: --preset {' or '.join(others)}" if others else ""
    return f"recipe {plan.recipe.name}" + (f", preset {plan.recipe.preset}{other}" if plan.recipe.preset else "")


_OUTPUT = output("The run folder, as in `recipe run`; checks that it can be written.", None)


def _count(text: str) -> int:
    """`1e9` and `1_000_000` too."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 1 <= number < 1e15 or number != int(number):
        raise typer.BadParameter(f"{text!r}: must be a whole number above 0, such as 1e9")
    return int(number)


def plan(
    name: str = NAME,
    preset: str | None = PRESET,
    settings: list[str] = SET,
    until: str | None = typer.Option(None, help="Only what this stage needs.", autocompletion=completion.stages),
    documents: int | None = typer.Option(
        None, parser=_count, metavar="N", help="Plan for N documents, such as 1e9, with none of them in the store."
    ),
    folder: Path | None = _OUTPUT,
    store: Path | None = STORE,
    as_json: bool = JSON,
) -> None:
    """Show each step, in the store or to run, with its key, its items and its bytes.

    Seconds are told where the store has a step like it: of the same stage and options, dataset and start model.

    Example: hardneg recipe plan star-passage --preset paper
    """
    problems: list[HardnegError] = []
    plan, opened = planned(name, preset, settings, problems), open_store(store)
    check_stages(plan, until)
    if folder is not None:
        run_outputs(plan, opened, folder, overwrite=False).check()
    if not as_json:
        say(headline(plan))
    _show(plan, opened, problems, as_json, until, documents)


def run_outputs(plan: "Plan", opened: Store, folder: Path, overwrite: bool) -> Outputs:
    """The run folder of a plan."""
    from hardneg.recipe.run_folder import COMMAND, names

    target = Target(folder, folder=True, names=names(plan), marked_by=LOCK)
    return plan_outputs(COMMAND, plan, opened, [target], overwrite)


def show_plan(recipe: Any, workplace: "Workplace", as_json: bool) -> None:
    """The plan of a command that makes its recipe itself, here, and how to make it shorter."""
    _show(recipe.plan(tell_once), workplace.store, (), as_json)
    if not as_json and not any(setting.startswith("model.document_length=") for setting in workplace.settings):
        say("less work, by reading less of each document: --set model.document_length=128")


def _show(
    plan: "Plan",
    store: Store,
    problems: Sequence[HardnegError],
    as_json: bool,
    until: str | None = None,
    documents: int | None = None,
) -> None:
    from hardneg.recipe.estimate import estimate, no_room
    from hardneg.recipe.needs import packages

    rows = estimate(plan, store, until, documents)
    too_large = list(no_room(rows, free_bytes(store.root)))
    ahead = [*map(str, problems), *(need.missing for need in packages(plan) if need.missing)]
    if as_json:
        return say_json({**_content(plan, rows), "too large": too_large, "before it can run": ahead}, indent=1)
    plan_table(rows, plan.recipe.copies)
    for line in too_large:
        say(f"too large: {line}")
    if any(START in step.inputs.values() for step in plan.until(until)):
        for line in override_lines(plan.recipe.models.of(plan.recipe.model)):
            say(line)
    for problem in ahead:
        say(f"before it can run: {problem}")


def _content(plan: "Plan", rows: "Sequence[Estimate]") -> dict[str, Any]:
    """The steps and their sum for `--json`; null for times that are not known."""
    copies = plan.recipe.copies
    seed_copies = {copy: {"of": name, "seed": seed} for name, seeds in copies.items() for seed, copy in seeds.items()}
    ahead = [row for row in rows if not row.cached]
    to_run = {"steps": len(ahead), "disk": sum(row.disk for row in ahead)}
    steps = [_line(row) | seed_copies.get(row.step.name, {}) for row in rows]
    return {"recipe": plan.recipe.name, "preset": plan.recipe.preset, "steps": steps, "to run": to_run}


def _line(row: "Estimate") -> dict[str, Any]:
    counts = {name: getattr(row, name) for name in ("items", "unit", "disk", "seconds")}
    like = {"like": row.like.key if row.like else None}
    named = {"step": row.step.name, "stage": row.step.verb, "key": row.step.key, "stored": row.cached}
    return {**named, **counts, **like}


def plan_table(rows: "Sequence[Estimate]", copies: Mapping[str, Mapping[int, str]] = {}) -> None:
    """Print one row a step, and the sum of all that is to run; what only some plans have stands in a second table.

    A stage that is made once a seed has one row, with the counts of all seeds.
    """
    stage_of = {copy: name for name, seeds in copies.items() for copy in seeds.values()}
    groups: dict[str, list[Estimate]] = {}
    columns: dict[str, list[str]] = {}
    for row in rows:
        groups.setdefault(stage_of.get(row.step.name, row.step.name), []).append(row)
    for name, group in groups.items():
        first, count, stored = group[0], len(group), sum(row.cached for row in group)
        total = {field: sum(getattr(row, field) or 0 for row in group) for field in ("items", "disk", "seconds")}
        cells = {
            "step": f"{name} x {counted(count, 'seed')}" if name in copies else name,
            "stage": first.step.verb,
            "state": "stored" if stored == count else f"{stored} of {count} stored" if stored else "to run",
            "key": first.step.key[:_SHOWN] if count == 1 else f"{count} keys",
            "items": f"{total['items']:,} {first.unit}",
            "disk": size(total["disk"]),
            "a step like it took": duration(total["seconds"]) if total["seconds"] else "",
        }
        for column, cell in cells.items():
            columns.setdefault(column, []).append(cell)
    console, names = stdout_console(), list(columns)
    beyond = [names[0], *(name for name in names[6:] if any(columns[name]))]
    for shown, words, narrow in ((names[:6], 4, "stage"), (beyond, 1, "step")):
        if len(shown) > 1:
            lines = [list(line) for line in zip(*(columns[name] for name in shown), strict=True)]
            print_table(console, Table(shown, lines, words=words), narrow=narrow)
    console.print(_ahead(rows), soft_wrap=True)


def _ahead(rows: "Sequence[Estimate]") -> str:
    ahead = [row for row in rows if not row.cached]
    parts = [f"to run: {len(ahead)} of {len(rows)} steps, about {size(sum(row.disk for row in ahead))} of disk"]
    if known := [row.seconds for row in ahead if row.seconds is not None]:
        parts.append(f"{duration(sum(known))} for {len(known)} of them, as steps like them took")
    return ", ".join(parts)


def override_lines(model: "ResolvedModel") -> list[str]:
    """What a recipe says otherwise than its model's own files, one line each; or that those are not here yet.

    Nothing of a model that has no files, such as one that a server holds.
    """
    from hardneg.encoders.open.contract import OWN, overrides

    spec = model.spec
    if model.folder is None and model.known is not None:
        return []
    if model.folder is None:
        left = [name for name in OWN if getattr(spec, name) is None]
        note = f"model {spec.name}: not on this machine; {', '.join(left)} are read from its files when it is"
        return [note] if left else []
    try:
        overridden, remarked = overrides(spec, model.contract).items(), model.remarks
    except HardnegError:
        return []  # told as what is in the way of a run
    lines = [f"model {spec.name}: {name} {_shown(said)}, its own is {_shown(own)}" for name, (said, own) in overridden]
    return lines + [f"model {spec.name}: {line}" for line in remarked]


def _shown(value: Any) -> str:
    from hardneg.encoders.open.contract import tokens_read

    if isinstance(value, int):
        return tokens_read(value)
    return repr(value) if isinstance(value, str) and (not value or " " in value) else str(value)
