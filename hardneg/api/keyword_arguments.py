"""Keyword arguments that functions share, each said once: a function's whole signature and docstring have them."""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, TypeVar, get_args

from hardneg.records.named_plugins import LOCAL
from hardneg.runtime.seeding import SEED

if TYPE_CHECKING:
    from hardneg.api.qrels_argument import AnyQrels
    from hardneg.runtime.progress import Progress

Settings = Sequence[str] | Mapping[str, Any]
_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Keyword:
    """What a keyword argument is, in a sentence, and its default; objects: what a function takes beside a text."""

    help: str
    default: Any = None
    objects: str = ""

    @property
    def documented(self) -> str:
        """As a function's docstring has it."""
        return f"{self.help} Or {self.objects}." if self.objects else self.help


class Where(TypedDict, total=False):
    """What every function takes by name."""

    settings: Annotated["Settings", Keyword("Set any value, such as model.document_length=256.", ())]
    store: Annotated[
        "str | Path | None", Keyword("The artifact store; default $HARDNEG_STORE if set, else ~/.cache/hardneg/store.")
    ]
    device: Annotated["str | None", Keyword("cpu, cuda, cuda:1, mps; default: the best available.")]
    engine: Annotated[
        "str | Mapping[str, Any]",
        Keyword(
            "Where the blocks of encode, search, mine and rerank are computed; "
            "`hardneg plugins list engines` shows them.",
            LOCAL,
        ),
    ]
    seed: Annotated["int", Keyword("The seed of random draws.", SEED)]
    progress: Annotated["bool | Progress", Keyword("Whether to show bars, or what shows them.", False)]


class AnalyzeArguments(Where, total=False):
    """What analyses take beside their fields, those that read it."""

    qrels: Annotated[
        "AnyQrels | None",
        Keyword("Judgements: TREC or BEIR form, plain or gzip.", objects="grades by document by query"),
    ]
    queries: Annotated[
        "str | Path | Mapping[str, Any] | None",
        Keyword("Queries: BEIR's queries.jsonl, id and text by tab, or TREC topics.", objects="texts by id"),
    ]
    corpus: Annotated[
        "str | Path | Mapping[str, Any] | None",
        Keyword("BEIR's corpus.jsonl, for documents' texts.", objects="texts by id"),
    ]
    withheld: Annotated[
        "AnyQrels | None", Keyword("Judgements that the filters do not know.", objects="grades by document by query")
    ]
    relevance_level: Annotated[
        "int", Keyword("The lowest grade that binary metrics take as relevant (trec_eval -l).", 1)
    ]
    run_folder: Annotated["str | Path | None", Keyword("The folder of a finished recipe.")]


def keywords(options: type) -> dict[str, tuple[str, Keyword]]:
    """The type in source of each keyword argument of a `TypedDict`, and what it is; those of every function last."""
    names = sorted(options.__annotations__, key=lambda name: name in Where.__annotations__)
    marks = {name: get_args(options.__annotations__[name]) for name in names}
    return {name: (reference.__forward_arg__, keyword) for name, (reference, keyword) in marks.items()}


def taken(arguments: Any, options: type) -> dict[str, Any]:
    """Takes the arguments of these options, or their defaults, out of a function's; those of every function stay."""
    own = {name: keyword for name, (_, keyword) in keywords(options).items() if name not in Where.__annotations__}
    return {name: arguments.pop(name, keyword.default) for name, keyword in own.items()}


def spelled_out(function: _Function, options: type | None = None) -> _Function:
    """Gives a function the signature and the docstring with each of its `**options: Unpack[...]`, as notebooks show it.

    The last line of its docstring's `Args:` is that of `**options`. A function that takes others beside, such as a
    plugin's, keeps it; what is listed is then named by `options`.
    """
    signature = inspect.signature(function)
    *named, rest = signature.parameters.values()
    listed = keywords(options or get_args(rest.annotation)[0])
    more = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=keyword.default, annotation=annotation)
        for name, (annotation, keyword) in listed.items()
    ]
    kept = [] if options is None else [rest]
    function.__signature__ = signature.replace(parameters=[*named, *more, *kept])  # type: ignore[attr-defined]
    lines = "".join(f"    {name}: {keyword.documented}\n" for name, (_, keyword) in listed.items())
    line = re.compile(rf"^    {rest.name}: .*\n( {{8}}.*\n)*", re.MULTILINE)
    document = f"{inspect.getdoc(function)}\n"
    function.__doc__ = line.sub(lambda own: lines + (own[0] if kept else ""), document)
    return function
