"""The commands of the public functions: what each has beside a function's arguments, what it writes, what it says."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from inspect import Parameter
from pathlib import Path
from typing import Any

from hardneg.cli import export, options
from hardneg.cli.adaptor import flag_of, parameters, shaped, shown, text_of, values
from hardneg.cli.console import print_section, say, stdout_console, tell_left_out
from hardneg.cli.options import keyword
from hardneg.cli.planned_work import TerminalSession, configured, opened, together
from hardneg.records import DROPPED, UsageError, counted
from hardneg.report.table import Section
from hardneg.store import MANIFEST, Target, link_file, link_folder

ON_ONE = ("settings", "store", "device")
ON_MANY = (*ON_ONE, "engine")
Args = Mapping[str, Any]


class Command:
    """A command that writes a function's result as a folder, and prints some of its facts.

    shows: the options that it has of those that every function takes. counts: facts that are printed first, each with
    what one and several of them are called; then the others, as what was left out, but those that are `unsaid`.
    """

    output = options.OUTPUT_FOLDER

    def __init__(
        self,
        function: Callable[..., Any],
        shows: Sequence[str],
        counts: Mapping[str, tuple[str, str]] = {},
        unsaid: Iterable[str] = (),
    ) -> None:
        self.function, self.counts, self.unsaid = function, counts, {*unsaid}
        self.arguments = shown(function, shows)

    def options(self) -> Iterator[Parameter]:
        """Those for what it writes."""
        yield keyword("output", default=self.output, annotation=Path)
        yield keyword("overwrite", default=options.OVERWRITE, annotation=bool)

    def targets(self, args: Args) -> list[Target]:
        """What is written. Raises UsageError where the form and the files do not go together."""
        return [Target(args["output"], folder=True)]

    def write(self, args: Args, result: Any, session: TerminalSession) -> None:
        """Lay the result at the output, and tell what was made and what was left out."""
        output, facts = args["output"], dict(result.facts)
        with session.outputs.laid_out():
            link_folder(result.path, output, {MANIFEST}) if result.path.is_dir() else link_file(result.path, output)
        self.tell(result)
        counts = [counted(facts.pop(name, 0), *nouns) for name, nouns in self.counts.items()]
        say(": ".join([str(output), *([", ".join(counts)] if counts else [])]))
        if counts:
            left = {name: count for name, count in facts.items() if name not in self.unsaid}
            tell_left_out({name: count for name, count in left.items() if isinstance(count, int)})

    def show(self, section: Section) -> None:
        """Print tables and what explains them."""
        print_section(stdout_console(), section)

    def tell(self, result: Any) -> None:
        """What is printed of a result before its counts."""
        if tuned := result.facts.get("tuned"):
            say(f"tuned: {tuned}")

    def command(self, name: str) -> Callable[..., None]:
        """The function that typer calls."""
        options = [*parameters(self.arguments), *self.options()]
        return shaped(lambda **args: self._run(name, args), options, text_of(self.function), flag_of(self.function))

    def _run(self, name: str, args: Args) -> None:
        """Makes the result in the processes that were asked for; the first one writes it at the output, and speaks."""
        from hardneg.functions.session import OtherProcess

        targets, given = self.targets(args), values(self.arguments, args)
        engine = configured(args.get("engine"), args.get("engine_option"))
        with together(args.get("device")) as device:
            session = opened(args.get("store"), device, args.get("settings"), engine)
            session.command, session.targets, session.overwrite = name, targets, args["overwrite"]
            session.seed = args.get("seed", session.seed)
            session.plans = args.get("plan", False) and 1 + args["as_json"]
            with session.held, suppress(OtherProcess):
                result = self.function(**given, session=session)
                self.write(args, result, session)


class RunCommand(Command):
    """One that writes a run."""

    output = options.OUTPUT_RUN

    def targets(self, args: Args) -> list[Target]:
        """The run, whose name has to be that of a gzip file."""
        if args["output"].suffix != ".gz":
            raise UsageError(f"{args['output']}: runs are gzip files; give a name that ends in .trec.gz")
        return [Target(args["output"])]


class WrittenQueriesCommand(Command):
    """One that writes a collection."""

    def tell(self, result: Any) -> None:
        """The queries of each split, and what was written and left out."""
        say(", ".join(f"{split}: {counts['queries']:,} queries" for split, counts in result.facts["splits"].items()))
        for name, count in result.facts.items():
            if count and name not in ("documents", "seconds") and isinstance(count, int | float):
                say(f"  {name}: {count:,}")


_NEGATIVES: dict[str, tuple[Any, Any]] = {
    "form": (export.FORM, str),
    "count": (export.COUNT, int),
    "output": (options.OUTPUT_FILE, Path),
    "scores": (export.SCORES, bool),
    "corpus": (export.CORPUS, Path | None),
    "dropped": (export.DROPPED_FILE, Path | None),
}


class NegativesCommand(Command):
    """One that writes negatives in the form of a training program, and what was dropped beside them."""

    def options(self) -> Iterator[Parameter]:
        """The form, and how much of it."""
        for name, (default, annotation) in {**_NEGATIVES, "overwrite": (options.OVERWRITE, bool)}.items():
            yield keyword(name, default=default, annotation=annotation)

    def targets(self, args: Args) -> list[Target]:
        """All files."""
        return export.NegativesTarget(*(args[name] for name in _NEGATIVES)).checked()

    def write(self, args: Args, result: Any, session: TerminalSession) -> None:
        """Write the negatives, and tell of them."""
        target = export.NegativesTarget(*(args[name] for name in _NEGATIVES))
        counts = {name: count for name, count in result.facts.items() if isinstance(count, int) and count}
        say(f"{counted(counts.pop('queries', 0), 'query')}, {counted(counts.pop('negatives', 0), 'negative')} mined")
        counts.pop("queries in the run", None)
        named = [name for name in counts if name.startswith("dropped as ")]
        if left := ", ".join(f"{name.removeprefix('dropped as ')} {counts.pop(name)}" for name in named):
            say(f"  candidates left out: {left}")
        tell_left_out(counts)
        with session.outputs.laid_out():
            if target.dropped is not None:
                if not (result.folder / DROPPED).is_file():
                    raise UsageError("--dropped: this miner does not record what it drops; leave it out")
                link_file(result.folder / DROPPED, target.dropped)
                say(f"{target.dropped}: what was dropped")
            export.write(result, target)


def commands() -> dict[str, Command]:
    """All of them by name."""
    from hardneg.functions.encode import encode
    from hardneg.functions.fuse import fuse
    from hardneg.functions.index import index
    from hardneg.functions.mine import mine
    from hardneg.functions.rerank import rerank
    from hardneg.functions.search import search
    from hardneg.functions.train import train
    from hardneg.functions.write_queries import write_queries

    queries = {"queries": ("query", "queries")}
    pairs, documents = ("pair scored", "pairs scored"), ("document", "documents")
    return {
        "encode": Command(encode, ON_MANY),
        "fuse": RunCommand(fuse, ("store",), {**queries, "documents": documents}),
        "index build": Command(
            index,
            ("settings", "store"),
            {"passages": ("passage", "passages"), "bytes": ("byte", "bytes")},
            ["segments"],
        ),
        "mine": NegativesCommand(mine, ("seed", *ON_MANY)),
        "rerank": RunCommand(rerank, ON_MANY, {**queries, "pairs": pairs}, ["depth", "queries in the run"]),
        "search": RunCommand(search, ON_MANY, queries, ["depth"]),
        "train": Command(train, ON_ONE),
        "write-queries": WrittenQueriesCommand(write_queries, ("seed", *ON_ONE)),
    }
