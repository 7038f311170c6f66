"""Commands for the public functions, and for exchanging files with other programs."""

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from inspect import Parameter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple

import typer

from hardneg import evaluation, formats, recipes, report as reports
from hardneg.cli import adaptor, console, planned_work
from hardneg.cli.adaptor import keyword
from hardneg.cli.console import measured_tables, say, say_json, say_next, stdout_console, tell_left_out
from hardneg.cli.planned_work import TerminalSession, open_store, opened, store_outputs, together, values
from hardneg.formats import form_names
from hardneg.functions import arguments, mine, results, search
from hardneg.functions.evaluate import RunsToScore, evaluate as scored
from hardneg.functions.session import AdhocRecipe, OtherProcess
from hardneg.records import counted, errors, layout, wording
from hardneg.store import MANIFEST, Target, link_file, link_folder, replacing_folder

ON_ONE = ("settings", "store", "device")
ON_MANY = (*ON_ONE, "engine")
Args = Mapping[str, Any]
_FILE = adaptor.output("The file to write; its suffix must match the form.")
_OVERWRITE = keyword("overwrite", default=adaptor.OVERWRITE, annotation=bool)


class Command:
    """A command that writes the result of a function to a folder or a gzipped run, and prints the result's counts.

    shows: the shared options to offer. counts: the facts to print first, with their singular and plural nouns. If
    given, the other facts, except those in `unsaid`, follow as skipped items. run: whether the output is a run.
    """

    output: Any = None

    def __init__(
        self,
        function: Callable[..., Any],
        shows: Sequence[str],
        counts: Mapping[str, tuple[str, str]] = {},
        unsaid: Iterable[str] = (),
        run: bool = False,
    ) -> None:
        self.function, self.counts, self.unsaid, self.run = function, counts, {*unsaid}, run
        self.arguments = adaptor.shown(function, shows)

    def options(self) -> Iterator[Parameter]:
        """Yield the options `--output` and `--overwrite`."""
        written = "The run to write, NAME.trec.gz." if self.run else "The folder to write."
        yield from (keyword("output", default=self.output or adaptor.output(written), annotation=Path), _OVERWRITE)

    def targets(self, args: Args) -> list[Target]:
        """Return the output path as the only target. Raises UsageError if the name of a run does not end in .gz."""
        if self.run and args["output"].suffix != ".gz":
            raise errors.UsageError(f"{args['output']}: runs are written gzipped; use a name that ends in .trec.gz")
        return [Target(args["output"], folder=not self.run)]

    def write(self, args: Args, result: Any, session: TerminalSession) -> None:
        """Link the result to the output path and print the counts."""
        output, facts = args["output"], result.facts
        with session.outputs.publish():
            link_folder(result.path, output, {MANIFEST}) if result.path.is_dir() else link_file(result.path, output)
        if tuned := facts.get("tuned"):
            say(f"tuned: {tuned}")
        if splits := facts.get("splits"):
            say(", ".join(f"{split}: {counts['queries']:,} queries" for split, counts in splits.items()))
            for name, count in facts.items():
                if count and name not in ("documents", "seconds") and isinstance(count, int | float):
                    say(f"  {name}: {count:,}")
        counts = [counted(facts.get(name, 0), *nouns) for name, nouns in self.counts.items()]
        say(": ".join([str(output), *([", ".join(counts)] if counts else [])]))
        if left := {name: facts[name] for name in facts if counts and name not in {*self.counts, *self.unsaid}}:
            tell_left_out({name: count for name, count in left.items() if isinstance(count, int)})

    def command(self, name: str) -> Callable[..., None]:
        """Return the function for typer; all processes compute the result, but only the first one writes and prints."""

        def run(**args: Any) -> None:
            given, engine = values(self.arguments, args), (args.get("engine"), args.get("engine_option"))
            with together(args.get("device")) as device:
                session = opened(args.get("store"), device, args.get("settings"), *engine)
                session.command, session.targets = name, lambda: self.targets(args)
                session.overwrite = args["overwrite"]
                session.seed = args.get("seed", session.seed)
                session.plans = args.get("plan", False) and 1 + args["as_json"]
                with session.held, suppress(OtherProcess):
                    result = self.function(**given, session=session)
                    self.write(args, result, session)

        options, text = [*adaptor.parameters(self.arguments), *self.options()], adaptor.text_of(self.function)
        return adaptor.shaped(run, options, text, adaptor.flag_of(self.function))


def _written(default: Any, flag: str, meaning: str, **more: Any) -> Any:
    return typer.Option(default, flag, help=meaning, rich_help_panel=arguments.WRITTEN, **more)


_DONE = adaptor.complete_words(*form_names.NAMES)
_FORM = _written("n-tuple", "--form", f"The format: {', '.join(form_names.NAMES)}.", autocompletion=_DONE)
_CORPUS = _written(None, "--corpus-output", "Only for tevatron-v2, and required: the .jsonl file for the corpus.")
_NEGATIVES: dict[str, tuple[Any, Any]] = {
    "form": (_FORM, str),
    "count": (_written(8, "--count", "Number of negatives to write per query, starting with the first.", min=1), int),
    "output": (_FILE, Path),
    "scores": (_written(False, "--scores", "Also write the scores, if the form has a field for them."), bool),
    "corpus": (_CORPUS, Path | None),
    "dropped": (_written(None, "--dropped", "Also write the dropped candidates to this file."), Path | None),
}


class NegativesTarget(NamedTuple):
    """The output of a command that writes negatives: format, negatives per query (None: all), and files."""

    form: str
    negatives: int | None
    output: Path
    scores: bool = False
    corpus: Path | None = None
    dropped: Path | None = None

    def checked(self) -> list[Target]:
        """Return the output files. Raises UsageError if the form and the files do not match."""
        form_names.check_form(self.form, self.output)
        if (self.corpus is not None) != (self.form == "tevatron-v2"):
            raise errors.UsageError(
                "--corpus-output and --form tevatron-v2 must be used together; rows in this form contain only ids"
            )
        if self.corpus is not None and self.corpus.suffix != ".jsonl":
            raise errors.UsageError(f"{self.corpus}: must end in .jsonl")
        return [Target(path) for path in (self.output, self.corpus, self.dropped) if path is not None]

    def write(self, mined: results.MinedNegatives) -> None:
        """Write the negatives and, if requested, the corpus, and print the counts of rows and skipped items."""
        counts = dict(mined.write_form(self.output, self.form, self.negatives, self.scores))
        say(f"{self.output}: {counted(counts.pop('rows'), 'row')}, form {self.form}")
        tell_left_out(counts)
        if self.corpus is not None:
            corpus = mined.source.collection.corpus
            say(f"{self.corpus}: {counted(formats.forms.write_tevatron_corpus(self.corpus, corpus), 'document')}")


class NegativesCommand(Command):
    """A command that writes negatives in the format of a training program, and optionally the dropped candidates."""

    def options(self) -> Iterator[Parameter]:
        """Yield the options for the format, the number of negatives and the outputs."""
        for name, (default, annotation) in _NEGATIVES.items():
            yield keyword(name, default=default, annotation=annotation)
        yield _OVERWRITE

    def targets(self, args: Args) -> list[Target]:
        """Return the output files. Raises UsageError if the form and the files do not match."""
        return NegativesTarget(*(args[name] for name in _NEGATIVES)).checked()

    def write(self, args: Args, result: Any, session: TerminalSession) -> None:
        """Write the negatives and, if requested, dropped candidates. Raises UsageError if the miner recorded none."""
        target = NegativesTarget(*(args[name] for name in _NEGATIVES))
        counts = {name: count for name, count in result.facts.items() if isinstance(count, int) and count}
        say(f"{counted(counts.pop('queries', 0), 'query')}, {counted(counts.pop('negatives', 0), 'negative')} mined")
        counts.pop("queries in the run", None)
        named = [name for name in counts if name.startswith("dropped as ")]
        if left := ", ".join(f"{name.removeprefix('dropped as ')} {counts.pop(name)}" for name in named):
            say(f"  candidates dropped: {left}")
        tell_left_out(counts)
        with session.outputs.publish():
            if target.dropped is not None:
                if not (result.folder / layout.DROPPED).is_file():
                    raise errors.UsageError("--dropped: this miner records no dropped candidates; remove the option")
                link_file(result.folder / layout.DROPPED, target.dropped)
                say(f"{target.dropped}: dropped candidates")
            target.write(result)


def export(
    dataset: str = typer.Option(
        ..., help="The dataset with the queries and the corpus.", autocompletion=adaptor.complete_plugins("datasets")
    ),
    negatives: Path = typer.Option(..., help="The file of negatives to read."),
    source_form: str = typer.Option(form_names.OWN, "--from", help="Input format, as in --form.", autocompletion=_DONE),
    split: str = typer.Option("train", help="The split with the queries."),
    form: str = _FORM,
    count: int | None = _written(None, "--count", "Number of negatives to write per query; default: all.", min=1),
    output: Path = _FILE,
    corpus: Path | None = _CORPUS,
    overwrite: bool = adaptor.OVERWRITE,
    settings: list[str] = adaptor.SET,
    store: Path | None = adaptor.STORE,
) -> None:
    """Convert negatives between formats; texts are matched to the queries and the corpus by content.

    Example: hardneg export --dataset beir:scifact --negatives mined.parquet --from n-tuple --form dpr --output dpr.json
    """
    target, session = NegativesTarget(form, count, output, scores=form == "dpr", corpus=corpus), opened(store)
    session.command, session.targets, session.overwrite = "export", target.checked, overwrite
    form_names.check_form(source_form, negatives)
    with session.held, TemporaryDirectory() as folder:
        plan = session.begin(AdhocRecipe("export", dataset, settings=settings), [negatives])
        texts = results.TextSource(session.make_dataset(plan).path, split, session.store)
        lookup = formats.forms.TextLookup(texts.collection.queries(split), texts.collection.corpus)
        queries = formats.negatives.write_negatives(
            Path(folder) / layout.NEGATIVES, formats.forms.read_form(source_form, negatives, lookup)
        )
        say(f"{negatives}: {counted(queries, 'query')}")
        tell_left_out(lookup.counts)
        with session.outputs.publish():
            target.write(results.MinedNegatives.of(source_form, Path(folder), "", {}, texts))


def commands() -> dict[str, Command]:
    """The commands that run public functions, by name, such as `index build`."""
    queries = {"queries": ("query", "queries")}
    pairs, documents = ("pair scored", "pairs scored"), ("document", "documents")
    not_said = ["depth", "queries in the run"]
    passages = {"passages": ("passage", "passages"), "bytes": ("byte", "bytes")}
    return {
        "encode": Command(search.encode, ON_MANY),
        "fuse": Command(search.fuse, ("store",), {**queries, "documents": documents}, run=True),
        "index build": Command(search.index, ("settings", "store"), passages, ["segments"]),
        "mine": NegativesCommand(mine.mine, ("seed", *ON_MANY)),
        "rerank": Command(search.rerank, ON_MANY, {**queries, "pairs": pairs}, not_said, run=True),
        "search": Command(search.search, ON_MANY, queries, ["depth"], run=True),
        "train": Command(mine.train, ON_ONE),
        "write-queries": Command(mine.write_queries, ("seed", *ON_ONE)),
    }


index_app = typer.Typer(
    help="Build indexes over texts or vectors, or import vectors from other programs.", no_args_is_help=True
)


@index_app.command("import")
def import_(
    output: Path = adaptor.output("The folder to write."),
    overwrite: bool = adaptor.OVERWRITE,
    vectors: Path = typer.Option(
        ..., help="A .npy array, used with --ids; a Parquet file of ids and vectors; or Pyserini's embeddings.jsonl."
    ),
    ids: Path | None = typer.Option(None, "--ids", help="The document ids, one per line, in row order."),
) -> None:
    """Import vectors into a flat index for Pyserini's FaissSearcher.

    Example: hardneg index import --vectors vectors.npy --ids ids.txt --output index

    Example: hardneg index import --vectors vectors.parquet --output index
    """
    reads = [path for path in (vectors, ids) if path is not None]
    outputs = store_outputs("index import", [Target(output, folder=True)], reads, overwrite)
    outputs.check()
    with outputs.publish(), replacing_folder(output) as folder:
        file = formats.vectors_import.open_vectors(vectors, ids)
        count = formats.vectors_import.import_vectors(file, folder, console.Bars())
    say(f"{output}: {counted(count, 'vector')} of dimension {file.dimension}")


def pyserini(
    folder: Path = typer.Argument(help="A run folder or an index folder.", show_default=False),
    model: str | None = typer.Option(None, "--model", help="The model of an index that is outside a run folder."),
    option: list[str] = typer.Option(
        [], "--option", metavar="KEY=VALUE", help="An option the index was built with, such as scale=51.2 or k1=1.2."
    ),
    store: Path | None = adaptor.STORE,
) -> None:
    """Print Python code that opens each index of a run folder, or one index folder, in Pyserini.

    Example: hardneg pyserini runs/star-passage

    Example: hardneg pyserini lucene-impacts --model trained --option scale=51.2
    """
    from hardneg.encoders.spec import ModelSpec
    from hardneg.integrations.pyserini import openings, with_java

    spec = None if model is None else ModelSpec(model)
    for name, text in openings(folder, open_store(store), spec, planned_work.plugin_options(option)):
        say(f"# {name}\n{with_java(text)}\n")


ARGUMENTS = adaptor.shown(scored, ("settings", "store", "device"))


def _evaluate(**args: Any) -> None:
    judging = _judging_of(args)
    measured = judging.measured()
    tested = judging.tested(measured) if judging.baselines or not args["as_json"] else measured
    if args["as_json"]:
        for note in measured.notes:
            say(note, err=True)
        content = evaluation.metrics_json.to_json(tested)
        wanted = {"comparisons": tested.comparisons, "per_query": args["per_query"]}
        more = [key for key, asked in wanted.items() if asked]
        notes = ["notes"] if tested.notes else []  # the means only, or keys of a metrics file
        return say_json({key: content[key] for key in ("metrics", *more, *notes)} if more else content["metrics"])
    for label, scores in tested.results.items() if args["per_query"] else ():
        for metric, by_query in scores.items():
            for query_id, score in by_query.items():
                say(f"{label}\t{metric}\t{query_id}\t{score:.4f}")
    measured_tables(stdout_console(), tested)
    say_next(reports.content.next_steps(tested, runs=judging.files))


def _judging_of(args: Mapping[str, Any]) -> RunsToScore:
    session = opened(args["store"], args.get("device"), args["settings"])
    return RunsToScore.of(session, values(ARGUMENTS, args))


_PER_QUERY = typer.Option(False, "--per-query", help="Also print the scores of each query.")
_OPTIONS = [
    *adaptor.parameters(ARGUMENTS),
    keyword("per_query", default=_PER_QUERY, annotation=bool),
    keyword("as_json", default=adaptor.JSON, annotation=bool),
]
_called = adaptor.flag_of(scored)
evaluate = adaptor.shaped(_evaluate, _OPTIONS, adaptor.text_of(scored), _called)


def _report(**args: Any) -> None:
    """Score run files, test their differences, and write report.html, report.md and queries.tsv.

    With --dataset, the page shows the texts of queries and retrieved passages. --format markdown or latex prints only
    the tables, for the runs or for the metrics of a run folder, and writes no files.

    Example: hardneg report --qrels qrels.txt --run a.trec.gz --run b.trec.gz --output report
    """
    content, page, pages, folder = reports.content, reports.page, args["form"] == "pages", args["folder"]
    tables = page.latex if args["form"] == "latex" else page.markdown
    of_folder = folder is not None and not args["runs"] and args["output"] is None
    of_runs = folder is None and args["runs"] and (args["output"] is not None or not pages)
    if not (of_folder or of_runs):
        raise errors.UsageError("report: give a RUNFOLDER alone, or {runs} and, for pages, {output}", "runs", "output")
    if folder is not None:
        found = evaluation.metrics_json.read_metrics(folder / layout.METRICS)
        tree = recipes.read_lock(folder)["tree"] if (folder / layout.LOCK).exists() else {}
        title = args["title"] or tree.get("title") or folder.resolve().name
        return say(tables(content.ReportContent.of(title, found)), nl=False)
    judging, title = _judging_of(args), args["title"] or "Results"
    runs, dataset = judging.files, judging.dataset
    judging = replace(judging, baselines=judging.baselines or [*runs][:1])
    system = {str(path): label for label, path in runs.items()}.get(args["about"], args["about"])
    if system and system not in runs:
        raise errors.UsageError(f"about: unknown run {system!r}; available: {', '.join(runs)}")
    if not pages:
        tested = judging.tested(judging.measured())
        return say(tables(content.ReportContent.of(title, tested)), nl=False)
    file, source = judging.qrels if isinstance(judging.qrels, Path) else None, (dataset or "").partition(":")[2]
    reads = [*runs.values(), *([file] if file else []), *([Path(source).expanduser()] if source else [])]
    outputs = store_outputs("report", [Target(args["output"], folder=True, names=page.NAMES)], reads, args["overwrite"])
    outputs.check()
    measured = judging.tested(judging.measured())
    shown = content.ReportContent.of(title, measured, system=system)
    judged_by = file.name if file else f"split {judging.split} of {dataset}"
    settings: dict[str, Any] = {
        "evaluated on": f"{wording.counted(shown.queries, 'query')} of {judged_by}",
        "relevant from grade": judging.fields["relevance_level"],
        "baselines": ", ".join(judging.baselines),
    }
    passages = reports.query_section.Passages(runs, judging.grades(), judging.collection, judging.split)
    browse = shlex.join(["hardneg", "browse", *runs, *(["--dataset", dataset] if dataset else [])])
    steps = content.next_steps(measured, system, runs)
    shown = replace(shown, settings=settings, over=settings["evaluated on"], browse=browse, next=steps)
    with outputs.publish():
        for path in page.write_report(args["output"], shown, measured, passages):
            say(str(path))
    say_next(steps)


_FIRST = replace(ARGUMENTS["baselines"], help="Compare with this run, given by its file name; default: the first.")
_ABOUT = typer.Option("", "--about", help="The run that the page describes; default: all runs.")
_TITLE = typer.Option("", "--title", help="The title of the page or table; default: the folder's name, or Results.")
_OUTPUT = adaptor.output("The folder to write; existing report.* and queries.tsv are replaced.", None)
_RUNFOLDER = typer.Argument(
    None, metavar="RUNFOLDER", help="The run folder of a finished recipe, instead of run files.", exists=True
)
_FORMAT = typer.Option("pages", "--format", help="The output format.")
_REPORT_OPTIONS = [
    *adaptor.parameters({name: each for name, each in {**ARGUMENTS, "baselines": _FIRST}.items() if name != "device"}),
    keyword("folder", default=_RUNFOLDER, annotation=Path | None),
    keyword("form", default=_FORMAT, annotation=Literal["pages", "markdown", "latex"]),
    keyword("output", default=_OUTPUT, annotation=Path | None),
    keyword("about", default=_ABOUT, annotation=str),
    keyword("title", default=_TITLE, annotation=str),
    keyword("overwrite", default=adaptor.OVERWRITE, annotation=bool),
]
_REPORT_OPTIONS = [each.replace(default=None) if each.name == "runs" else each for each in _REPORT_OPTIONS]
report = adaptor.shaped(_report, _REPORT_OPTIONS, adaptor.text_of(_report), _called)
