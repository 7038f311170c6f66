"""`hardneg export`: negatives in the form that a training program reads."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from hardneg.cli import completion
from hardneg.cli.console import say, tell_left_out
from hardneg.cli.options import OUTPUT_FILE, OVERWRITE, SET, STORE, WRITTEN
from hardneg.cli.planned_work import opened
from hardneg.formats.form_names import NAMES, OWN, check_form
from hardneg.functions.adhoc_recipe import AdhocRecipe
from hardneg.records import NEGATIVES, UsageError, counted
from hardneg.store import Target

if TYPE_CHECKING:
    from hardneg.functions.mined import MinedNegatives


def _written(default: Any, flag: str, meaning: str, **more: Any) -> Any:
    return typer.Option(default, flag, help=meaning, rich_help_panel=WRITTEN, **more)


_DONE = completion.words(*NAMES)
FORM = _written("n-tuple", "--form", f"{', '.join(NAMES)}.", autocompletion=_DONE)
CORPUS = _written(None, "--corpus-output", "For tevatron-v2: write the corpus here too.")
COUNT = _written(8, "--count", "How many to write for each query, the first ones.", min=1)
SCORES = _written(False, "--scores", "Write the scores too, if the form has a field for them.")
DROPPED_FILE = _written(None, "--dropped", "The file for what a filtering miner dropped, and why.")
_ALL = _written(None, "--count", "How many to write for each query; default all.", min=1)


class NegativesTarget(NamedTuple):
    """What to write: the form, how many negatives a query, where, with scores or not; the corpus; what was dropped."""

    form: str
    negatives: int | None
    output: Path
    scores: bool = False
    corpus: Path | None = None
    dropped: Path | None = None

    def checked(self) -> list[Target]:
        """The files. Raises UsageError where the form and they do not go together."""
        check_form(self.form, self.output)
        if (self.corpus is not None) != (self.form == "tevatron-v2"):
            problem = "goes with --form tevatron-v2, whose rows hold ids alone; give both or neither"
            raise UsageError(f"--corpus-output FILE {problem}")
        if self.corpus is not None and self.corpus.suffix != ".jsonl":
            raise UsageError(f"{self.corpus}: the corpus of tevatron-v2 ends in .jsonl")
        return [Target(path) for path in (self.output, self.corpus, self.dropped) if path is not None]


def export(
    dataset: str = typer.Option(
        ..., help="The dataset of the negatives.", autocompletion=completion.plugins("datasets")
    ),
    negatives: Path = typer.Option(..., help="The file to read."),
    source_form: str = typer.Option(OWN, "--from", help="Its form, as in --form.", autocompletion=_DONE),
    split: str = typer.Option("train", help="The queries' split."),
    form: str = FORM,
    count: int | None = _ALL,
    output: Path = OUTPUT_FILE,
    corpus: Path | None = CORPUS,
    overwrite: bool = OVERWRITE,
    settings: list[str] = SET,
    store: Path | None = STORE,
) -> None:
    """Convert negatives from one form to another; texts are matched to the corpus by content.

    Example: hardneg export --dataset beir:scifact --negatives mined.parquet --from n-tuple --form dpr --output dpr.json
    """
    from hardneg.formats.forms import TextLookup, read_form
    from hardneg.formats.negatives import write_negatives
    from hardneg.functions.content_store import make_dataset
    from hardneg.functions.mined import mined_in
    from hardneg.functions.results import TextSource

    target = NegativesTarget(form, count, output, scores=form == "dpr", corpus=corpus)
    session = opened(store)
    session.command, session.targets, session.overwrite = "export", target.checked(), overwrite
    check_form(source_form, negatives)
    with session.held, TemporaryDirectory() as folder:
        plan = session.begin(AdhocRecipe("export", dataset, settings=settings), [negatives])
        texts = TextSource.of(make_dataset(plan, session), split, session.store)
        lookup = TextLookup(texts.collection.queries(split), texts.collection.corpus)
        queries = write_negatives(Path(folder) / NEGATIVES, read_form(source_form, negatives, lookup))
        say(f"{negatives}: {counted(queries, 'query')}")
        tell_left_out(lookup.counts)
        with session.outputs.laid_out():
            write(mined_in(source_form, Path(folder), "", {}, texts), target)


def write(mined: "MinedNegatives", target: NegativesTarget) -> None:
    """Writes negatives as the target says, and tells what was left out."""
    from hardneg.formats.forms import write_tevatron_corpus

    counts = dict(mined.write_form(target.output, target.form, target.negatives, target.scores))
    say(f"{target.output}: {counted(counts.pop('rows'), 'row')}, form {target.form}")
    tell_left_out(counts)
    if target.corpus is not None:
        corpus = mined.source.collection.corpus
        say(f"{target.corpus}: {counted(write_tevatron_corpus(target.corpus, corpus), 'document')}")
