"""What a line is: arguments, most of them fields of verbs, and the work that they are for.

The command, the function, its signature and docstring, completion and the reference are made from a line's class.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from hardneg.api.keyword_arguments import Where, keywords
from hardneg.records.errors import UsageError

if TYPE_CHECKING:
    from hardneg.api.adhoc_recipe import AdhocRecipe
    from hardneg.api.workplace import Workplace
    from hardneg.recipe.plan import Plan

REQUIRED: Any = ...
"""The default of an argument that must be given."""

MACHINE = "Where it runs"
WRITTEN = "What is written"


@dataclass(frozen=True)
class Argument:
    """An argument of a line, said here.

    type: in the function's signature, as source has it; objects: what the function takes beside what a terminal gives.
    form: that, a type of typer's, or a dict, of NAME=VALUE given again and again. check: what a call gave, as the line
    takes it, or a HardnegError. flag: the name of the command's option, if another; same: others that it has too.
    operand: the command takes it without an option's name.
    plugins: the kind of plugin that it names, whose options stand beside its name, and in the command as `--option`.
    metavar, panel, words: in the command's help, and what completes it; metrics: names of metrics do. least: the lowest
    number. shown_in: the command, the function, or both. of_dataset: a split; the function takes that of a dataset in
    memory which has only one.
    """

    name: str
    help: str
    type: str = "str"
    default: Any = REQUIRED
    form: Any = str
    check: Callable[[Any], Any] = field(default=lambda value: value, repr=False)
    flag: str = ""
    same: tuple[str, ...] = ()
    plugins: str = ""
    metavar: str = ""
    panel: str = ""
    words: tuple[str, ...] = ()
    metrics: bool = False
    least: int | None = None
    objects: str = ""
    shown_in: tuple[str, ...] = ("command", "function")
    of_dataset: bool = False
    operand: bool = False


@dataclass(frozen=True)
class Of:
    """An argument that is a field of a verb, such as `search.depth`: its type, default, bounds and help are there.

    name: what the line calls it, if not as the verb does. of_dataset: it is a split; without it the only one of a
    dataset in memory is taken. required: it must be given here. default: here, if another than the verb's.
    """

    path: str
    name: str = ""
    of_dataset: bool = False
    required: bool = False
    default: Any = None

    @property
    def called(self) -> str:
        """What the line calls it."""
        return self.name or self.path.rpartition(".")[2]

    def argument(self) -> Argument:
        """As the verb's class says it."""
        from hardneg.lines.verb_fields import argument_of

        own = argument_of(self.path, self.called)
        if self.required:
            own = replace(own, default=REQUIRED, type=own.type.removesuffix(" | None"))
        default = own.default if self.default is None else self.default
        return replace(own, of_dataset=self.of_dataset, default=default)


class Arguments(SimpleNamespace):
    """The arguments of a call, checked, by their names."""

    def of(self, verb: str) -> dict[str, Any]:
        """The stage of a verb: what was given of its fields."""
        values = {at: getattr(self, name) for at, name in self.fields.items() if at.startswith(f"{verb}.")}
        return {"stage": verb, **{at.partition(".")[2]: value for at, value in values.items() if value is not None}}

    def paths(self, stages: Mapping[str, Any]) -> dict[str, str]:
        """The arguments by where they stand in a recipe of these stages."""
        paths = {
            f"stages.{stage}.{at.partition('.')[2]}": name
            for stage, spec in stages.items()
            for at, name in self.fields.items()
            if at.startswith(f"{spec['stage']}.")
        }
        if hasattr(self, "options"):
            paths |= {f"stages.{stage}.options": "options" for stage, spec in stages.items() if "options" in spec}
        return paths


class Plannable(Protocol):
    """A recipe in memory."""

    def plan(self, tell: Callable[[str], None] = ...) -> "Plan":
        """Its steps; `tell` gets its notes."""


@dataclass(frozen=True)
class Job:
    """The work of one call.

    recipe: in memory; None for work without one. make: the result, by the plan of the recipe; of several processes None
    in all but the first. reads: the files and folders of the user that are read beside the recipe's. ahead: the recipe
    with what is planned later, which `--plan` shows, if there is more than in the recipe.
    """

    recipe: Plannable | None
    make: "Callable[[Any, Workplace], Any]"
    reads: Sequence[Path] = ()
    ahead: Plannable | None = None


class Line(ABC):
    """Base of all lines. The docstring of a subclass is the help of its command and the docstring of its function.

    It ends in `Raises:`, which the command leaves out, and in an `Example:` of the command, which the function does.

    name: of the function. words: that call the command, if others. arguments: in their order; by_place: so many may
    be given without their names. returns: what the
    function returns, as source has it. writes: the command's output: `run`, `folder`, `negatives` or `recipe`. counts:
    facts of the result that the command prints, each with what one and several of them are called. unsaid: facts that
    it does not print. shows: the common arguments that the command has; the function has all.
    """

    name: ClassVar[str]
    words: ClassVar[str] = ""
    arguments: ClassVar[Sequence[Argument | Of]]
    positional: ClassVar[int] = 2
    returns: ClassVar[str]
    writes: ClassVar[str] = "folder"
    counts: ClassVar[Mapping[str, tuple[str, str]]] = {}
    unsaid: ClassVar[Sequence[str]] = ()
    shows: ClassVar[Sequence[str]] = ("settings", "store", "device", "engine")

    @abstractmethod
    def job(self, args: Arguments, workplace: "Workplace") -> Job:
        """The work that the arguments ask for.

        Raises:
            UsageError: they do not go together.
        """

    def recipe(self, args: Arguments, workplace: "Workplace", stages: Mapping[str, Any]) -> "AdhocRecipe":
        """The recipe in memory of these stages, with the dataset and the model that were given."""
        from hardneg.api.dataset_argument import named_dataset
        from hardneg.api.model_argument import named_model

        model = getattr(args, "model", None)
        named = None if model is None else named_model(model, workplace.store)
        recipe = workplace.recipe(self.words or self.name, named_dataset(args.dataset, workplace.store), stages, named)
        return replace(recipe, arguments=args.paths(stages))

    def split(self, args: Arguments) -> str:
        """The split that was given; else the only one of a dataset in memory, or the usual one."""
        from hardneg.api.dataset_argument import split_of

        return split_of(args.dataset, args.split, self.resolved()["split"].default)

    def result(self, args: Arguments, workplace: "Workplace") -> Any:
        """What the function returns. Raises as `job`, and what the work does."""
        job = self.job(args, workplace)
        outcome = job.make(None if job.recipe is None else job.recipe.plan(), workplace)
        if outcome is None:
            raise UsageError(f"{self.name}: of several processes the first one has the result; read it from the store")
        return outcome

    def sentences(self, result: Any) -> Iterator[str]:
        """What the command prints of a result beside its counts."""
        if tuned := result.facts.get("tuned"):
            yield f"tuned: {tuned}"

    @classmethod
    @cache
    def resolved(cls) -> Mapping[str, Argument]:
        """All own arguments by name, those of verbs with what their classes say of them."""
        own = [each.argument() if isinstance(each, Of) else each for each in cls.arguments]
        return {each.name: each for each in own}

    @classmethod
    def checked(cls, values: Mapping[str, Any]) -> Arguments:
        """Values by name, each as its field takes it; defaults for the others.

        Raises:
            UsageError: a field does not take its value.
        """
        checked_values: dict[str, Any] = {}
        for name, each in cls.resolved().items():
            value = values.get(name, None if each.of_dataset else each.default)
            if value is REQUIRED:
                raise UsageError(f"{{{name}}}: missing", name)
            value = each.default if value is None and each.default == {} else value
            usual = name not in values and not each.plugins
            missing = value is None and (each.default is None or each.of_dataset)
            checked_values[name] = value if missing or usual else each.check(value)
        fields = {each.path: each.called for each in cls.arguments if isinstance(each, Of)}
        return Arguments(**checked_values, fields=fields)


_COMMAND, _FUNCTION = ("command",), ("function",)

_KEYWORDS = keywords(Where)


def _shared(name: str, **facts: Any) -> Argument:
    own_type, keyword = _KEYWORDS[name]
    return Argument(name, keyword.help, own_type, keyword.default, **facts)


_COMMON = (
    _shared("settings", form=list[str], flag="set", metavar="PATH=VALUE"),
    _shared("store", form=Path, metavar="PATH", panel=MACHINE),
    _shared("device", panel=MACHINE, words=("cpu", "cuda", "mps")),
    Argument(
        "processes",
        "Run in N processes: on N shares of the cores, or N GPUs.",
        "int | None",
        None,
        int,
        flag="num-processes",
        panel=MACHINE,
        least=1,
        shown_in=_COMMAND,
    ),
    _shared("engine", plugins="engines", panel=MACHINE),
    Argument("plan", "Show the steps, and do nothing.", "bool", False, bool, shown_in=_COMMAND),
    _shared("seed", form=int, shown_in=_FUNCTION),
    _shared("progress", form=bool, shown_in=_FUNCTION),
)
COMMON = {each.name: each for each in _COMMON}
"""What every line takes beside its own arguments."""


def common(line: type[Line]) -> Iterator[Argument]:
    """The common arguments of a line; its own of the same name stand in their place."""
    own = {each.called if isinstance(each, Of) else each.name for each in line.arguments}
    yield from (each for each in COMMON.values() if each.name not in own)
