"""`hardneg mine` and `hardneg export`: negatives for any training program, mined by a model or from anyone's run."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import typer

from hardneg.cli import completion, lines
from hardneg.cli.devices import DEVICE
from hardneg.cli.outputs import OVERWRITE, Target, store_outputs
from hardneg.cli.panels import WRITTEN
from hardneg.cli.printing import say
from hardneg.cli.stores import STORE, open_store
from hardneg.counting import counted
from hardneg.errors import UsageError

if TYPE_CHECKING:
    from hardneg.artifacts import Artifact, Store
    from hardneg.data.collection import StoredCollection
    from hardneg.recipe.execute import Outcome
    from hardneg.recipe.plan import Plan
    from hardneg.stages.positive_scores import Scores

_FORMS = "triplet, n-tuple, labeled-list, tevatron-v1, tevatron-v2, dpr, flagembedding, hardneg."
_ANCE = "ance"
FORMS = completion.words(*_FORMS.rstrip(".").split(", "))
FORM = typer.Option("n-tuple", help=_FORMS, autocompletion=FORMS, rich_help_panel=WRITTEN)
SPLIT = typer.Option("train", help="The queries' split.")
CORPUS = typer.Option(
    None, "--corpus-output", help="For tevatron-v2: write the corpus here too.", rich_help_panel=WRITTEN
)


@dataclass(frozen=True)
class _Target:
    """What to write: the form, how many negatives a query, with scores or not, where; the corpus; what was dropped."""

    form: str
    negatives: int | None
    output: Path
    scores: bool = False
    corpus: Path | None = None
    dropped: Path | None = None

    @property
    def files(self) -> list[Target]:
        return [Target(path) for path in (self.output, self.corpus, self.dropped) if path is not None]

    def check(self) -> None:
        from hardneg.data.export.catalogue import check_form

        check_form(self.form, self.output)
        if (self.corpus is not None) != (self.form == "tevatron-v2"):
            raise UsageError(
                "--corpus-output FILE goes with --form tevatron-v2, whose rows hold ids alone; give both or neither"
            )
        if self.corpus is not None and self.corpus.suffix != ".jsonl":
            raise UsageError(f"{self.corpus}: the corpus of tevatron-v2 ends in .jsonl")


@dataclass(frozen=True)
class _Mined:
    """Mined negatives: the folder of the file, what the stage counted, and the scores of the positives if wanted."""

    folder: Path
    facts: Mapping[str, Any]
    collection: "StoredCollection"
    scores: "Scores | None"


def mine(
    dataset: str = lines.DATASET,
    model: str | None = typer.Option(None, "--model", help="A folder, a hub id, or packaged:all-MiniLM-L6-v2."),
    run: Path | None = typer.Option(None, "--run", help="Select from this TREC run instead of a model's search."),
    miner: str = typer.Option(
        "topk", help="A miner; `hardneg plugins list` shows them.", autocompletion=completion.plugins("miners")
    ),
    option: list[str] = typer.Option([], metavar="KEY=VALUE", help="An option of the miner, such as depth=50."),
    split: str = SPLIT,
    depth: int = typer.Option(210, min=1, help="How many documents to search for each query."),
    form: str = FORM,
    count: int = typer.Option(
        8, min=1, help="How many to write for each query, the first ones.", rich_help_panel=WRITTEN
    ),
    output: Path = typer.Option(
        ..., "--output", "-o", help="The file to write; its ending goes with the form.", rich_help_panel=WRITTEN
    ),
    scores: bool = typer.Option(
        False, "--scores", help="Write the scores too, where the form has a place for them.", rich_help_panel=WRITTEN
    ),
    corpus: Path | None = CORPUS,
    filter_by: Path | None = typer.Option(
        None, "--filter-by", help="With --run: a TREC run whose scores the miner filters by, such as a reranker's."
    ),
    dropped: Path | None = typer.Option(
        None, "--dropped", help="Write here what a filtering miner dropped, and why.", rich_help_panel=WRITTEN
    ),
    overwrite: bool = OVERWRITE,
    seed: int = typer.Option(42, help="For miners that draw."),
    settings: list[str] = lines.SET,
    store: Path | None = STORE,
    device: str | None = DEVICE,
    processes: int | None = lines.PROCESSES,
) -> None:
    """Mine hard negatives and write them in the form a training program reads.

    The vectors, the run and the negatives are kept in the store: the same again, or in another form, is quick.

    Example: hardneg mine --dataset beir:FOLDER --model NAME --form n-tuple --count 8 --output mined.parquet
    """
    from hardneg.cli.launch import launched, together

    target = _Target(form, count, output, scores, corpus, dropped)
    target.check()
    _check_sources(model, run, filter_by)
    mining = {"stage": "mine", "split": split, "miner": {"name": miner, **lines.options(option)}}
    stages = _stages(mining, None if run else depth)
    if launched(processes, device):
        return
    with together(device) as own_device:
        plan = lines.plan_line("hardneg mine", lines.line(dataset, model, stages, seed), settings)
        opened = open_store(store)
        reads = [path for path in (run, filter_by) if path]
        outputs = lines.line_outputs("mine", plan, opened, target.files, overwrite, reads)
        with outputs.begun(), _mined(plan, opened, (run, filter_by), own_device, scores) as made:
            if made is not None:
                _tell_mined(made.facts)
                with outputs.laid_out():
                    if dropped is not None:
                        _write_dropped(made.folder, dropped)
                    _write(made, split, target)


def _check_sources(model: str | None, run: Path | None, filter_by: Path | None) -> None:
    if (model is None) == (run is None):
        raise UsageError("mine: give --model NAME or --run FILE, one of them")
    if filter_by is not None and run is None:
        raise UsageError("mine: --filter-by goes with --run FILE, the list to select from")


def _stages(mining: dict[str, Any], depth: int | None) -> dict[str, Any]:
    """The stage that mines, behind those that encode and search to a depth, unless there is a run already."""
    if depth is None:
        return {lines.MINED: mining}
    searched = {"stage": "search", "index": lines.ENCODED, "split": mining["split"], "depth": depth}
    mining = {**mining, "runs": {"dense": lines.SEARCHED}}
    return {lines.ENCODED: {"stage": "encode"}, lines.SEARCHED: searched, lines.MINED: mining}


def export(
    dataset: str | None = typer.Option(
        None, "--dataset", help="What the negatives are of.", autocompletion=completion.plugins("datasets")
    ),
    negatives: Path | None = typer.Option(None, "--negatives", help="The file to read."),
    source_form: str = typer.Option("hardneg", "--from", help="Its form; any that --form takes.", autocompletion=FORMS),
    model: Path | None = typer.Option(None, "--model", help="A model's folder instead; goes with --form ance."),
    split: str = SPLIT,
    form: str = typer.Option(
        "n-tuple", help=f"{_FORMS} Of a model: {_ANCE}.", autocompletion=FORMS, rich_help_panel=WRITTEN
    ),
    count: int | None = typer.Option(
        None, "--count", min=1, help="How many to write for each query; default all.", rich_help_panel=WRITTEN
    ),
    output: Path = typer.Option(
        ..., "--output", "-o", help="The file to write; its ending goes with the form.", rich_help_panel=WRITTEN
    ),
    corpus: Path | None = CORPUS,
    overwrite: bool = OVERWRITE,
    settings: list[str] = lines.SET,
    store: Path | None = STORE,
) -> None:
    """Read negatives in one form and write them in another; texts are found in the corpus by their contents.

    Or write a model for Pyserini's AnceQueryEncoder.

    Example: hardneg export --dataset beir:scifact --negatives mined.parquet --from n-tuple --form dpr --output dpr.json

    Example: hardneg export --model trained --form ance --output encoder
    """
    if model is not None and form == _ANCE and dataset is None and negatives is None:
        _export_model(model, output, overwrite)
        return
    if model is not None or dataset is None or negatives is None:
        raise UsageError("export: give --dataset NAME and --negatives FILE, or --model FOLDER with --form ance")
    from hardneg.data.collection import StoredCollection
    from hardneg.data.export.catalogue import check_form, read_form
    from hardneg.data.export.rows import Lookup
    from hardneg.data.negatives import write_negatives
    from hardneg.stages.mine import NEGATIVES
    from hardneg.stages.spec_parts import DATASET

    target = _Target(form, count, output, scores=form == "dpr", corpus=corpus)
    target.check()
    check_form(source_form, negatives)
    plan, opened = lines.plan_line("hardneg export", lines.dataset_line(dataset), settings), open_store(store)
    outputs = lines.line_outputs("export", plan, opened, target.files, overwrite, [negatives])
    with outputs.begun(), TemporaryDirectory() as folder:
        collection = StoredCollection.open(lines.run_line(plan, opened, None, until=DATASET).artifacts[DATASET].path)
        lookup = Lookup(collection.queries(split), collection.corpus)
        queries = write_negatives(Path(folder) / NEGATIVES, read_form(source_form, negatives, lookup))
        say(f"{negatives}: {counted(queries, 'query')}")
        lines.tell_left_out(lookup.counts)
        with outputs.laid_out():
            _write(_Mined(Path(folder), {}, collection, None), split, target)


def _export_model(model: Path, output: Path, overwrite: bool) -> None:
    from hardneg.models.ance import QUERY_LENGTH, export_ance
    from hardneg.models.encoder import Encoder

    outputs = store_outputs("export", [Target(output, folder=True)], [model], overwrite)
    outputs.check()
    encoder = Encoder.open(model, "cpu")
    with outputs.laid_out():
        export_ance(encoder, output)
    say(f"{output}: opens in Pyserini's AnceQueryEncoder")
    if (length := encoder.spec.query_length) != QUERY_LENGTH:
        say(f"  Pyserini reads {QUERY_LENGTH} tokens of a query, the model {length}: longer ones differ")


@contextmanager
def _mined(
    plan: "Plan", store: "Store", runs: tuple[Path | None, Path | None], device: str | None, scores: bool
) -> Iterator[_Mined | None]:
    """What is to be written, in the first of several processes; None in the others.

    runs: the one to select from, and the one to filter by.
    """
    from hardneg.data.collection import StoredCollection
    from hardneg.distributed import world
    from hardneg.stages.spec_parts import DATASET

    run, filter_by = runs
    outcome = lines.run_line(plan, store, device, until=DATASET if run else None)
    if not world().first:
        yield None
        return
    collection = StoredCollection.open(outcome.artifacts[DATASET].path)
    if run is None:
        made = outcome.artifacts[lines.MINED]
        known = _model_scores(plan, outcome, collection, device) if scores else None
        yield _Mined(made.path, made.facts, collection, known)
        return
    with TemporaryDirectory() as folder:
        facts = _mine_run(plan, outcome.artifacts[DATASET], (run, filter_by), Path(folder))
        yield _Mined(Path(folder), facts, collection, _run_scores(run, Path(folder)) if scores else None)


def _mine_run(plan: "Plan", dataset: "Artifact", runs: tuple[Path, Path | None], folder: Path) -> dict[str, Any]:
    from hardneg.cli.console import Bars, stderr_console
    from hardneg.stages.foreign_run import mine_from
    from hardneg.stages.spec_parts import DATASET
    from hardneg.stages.work import Input, Work

    step = plan.steps[lines.MINED]
    inputs = {DATASET: Input(DATASET, dataset.key, dataset.path)}
    work = Work(step.name, step.spec, folder, inputs, step.plugins, Bars(stderr_console()))
    return mine_from(runs[0], work, runs[1])


def _write_dropped(folder: Path, path: Path) -> None:
    from hardneg.atomic_write import link_file
    from hardneg.stages.mine import DROPPED

    if not (folder / DROPPED).is_file():
        raise UsageError("--dropped: this miner does not tell what it drops; leave it out, or filter, as denoised does")
    link_file(folder / DROPPED, path)
    say(f"{path}: what was dropped")


def _run_scores(run: Path, folder: Path) -> "Scores":
    from hardneg.data.negatives import read_negatives
    from hardneg.data.runs import read_run
    from hardneg.stages.mine import NEGATIVES
    from hardneg.stages.positive_scores import scores_in_run

    read = read_run(run)
    entries = zip(read.query_ids, read.doc_ids, read.scores, strict=True)
    return scores_in_run(read_negatives(folder / NEGATIVES), entries)


def _model_scores(plan: "Plan", outcome: "Outcome", collection: "StoredCollection", device: str | None) -> "Scores":
    """Those of the run; for positives that the search did not reach, the model's own."""
    import numpy as np

    from hardneg.cli.console import Bars, stderr_console
    from hardneg.data.flat import FlatVectors
    from hardneg.data.negatives import read_negatives
    from hardneg.data.run_stream import stream_run
    from hardneg.models.encoder import Encoder
    from hardneg.stages.mine import NEGATIVES
    from hardneg.stages.positive_scores import fill_from_model, scores_in_run
    from hardneg.stages.search import RUN

    made = {name: outcome.artifacts[name].path for name in (lines.MINED, lines.SEARCHED, lines.ENCODED)}
    negatives = read_negatives(made[lines.MINED] / NEGATIVES)
    found = scores_in_run(negatives, stream_run(made[lines.SEARCHED] / RUN))
    if any(np.isnan(values).any() for values in found.values()):
        dense = Encoder.load(plan.recipe.model, device), FlatVectors.open(made[lines.ENCODED])
        queries = collection.queries(plan.steps[lines.MINED].spec.split)  # type: ignore[attr-defined]
        fill_from_model(found, negatives, queries, collection, dense, Bars(stderr_console()))
    return found


def _write(made: _Mined, split: str, target: _Target) -> None:
    from hardneg.data.export.catalogue import Source, write_form
    from hardneg.data.export.passages import write_tevatron_corpus
    from hardneg.data.export.rows import WriteOptions
    from hardneg.data.negatives import read_negatives
    from hardneg.stages.mine import NEGATIVES

    known = made.scores
    options = WriteOptions(target.negatives, target.scores, (lambda item: known[item.query_id]) if known else None)
    source = Source(made.collection.queries(split), made.collection.corpus)
    counts = write_form(target.form, target.output, read_negatives(made.folder / NEGATIVES), source, options)
    say(f"{target.output}: {counted(counts.pop('rows'), 'row')}, form {target.form}")
    lines.tell_left_out(counts)
    if target.corpus is not None:
        say(f"{target.corpus}: {counted(write_tevatron_corpus(target.corpus, made.collection.corpus), 'document')}")


def _tell_mined(facts: Mapping[str, Any]) -> None:
    counts = {name: count for name, count in facts.items() if isinstance(count, int) and count}
    say(f"{counted(counts.pop('queries', 0), 'query')}, {counted(counts.pop('negatives', 0), 'negative')} mined")
    counts.pop("queries in the run", None)
    dropped = {name: counts.pop(name) for name in list(counts) if name.startswith("dropped as ")}
    if dropped:
        reasons = ", ".join(f"{name.removeprefix('dropped as ')} {count}" for name, count in dropped.items())
        say(f"  candidates left out: {reasons}")
    lines.tell_left_out(counts)
