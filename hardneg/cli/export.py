"""`hardneg export`: negatives in the form that a training program reads."""

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import typer

from hardneg.api.adhoc_recipe import AdhocRecipe
from hardneg.cli import completion
from hardneg.cli.console import say, tell_left_out
from hardneg.cli.options import OUTPUT_FILE, OVERWRITE, SET, STORE, WRITTEN
from hardneg.cli.planned_work import TerminalWorkplace, opened
from hardneg.formats.export.catalogue import NAMES, OWN, check_form
from hardneg.records.errors import UsageError
from hardneg.records.layout import NEGATIVES
from hardneg.records.wording import counted
from hardneg.store.replaced_files import Target

if TYPE_CHECKING:
    from hardneg.api.mined import MinedNegatives
    from hardneg.store.artifacts import Artifact

_FORMS = f"{', '.join(NAMES)}."
_DONE = completion.words(*NAMES)


def _form(forms: str) -> Any:
    return typer.Option("n-tuple", help=forms, autocompletion=_DONE, rich_help_panel=WRITTEN)


FORM = _form(_FORMS)
CORPUS = typer.Option(
    None, "--corpus-output", help="For tevatron-v2: write the corpus here too.", rich_help_panel=WRITTEN
)
_SPLIT = typer.Option("train", help="The queries' split.")
COUNT = typer.Option(8, min=1, help="How many to write for each query, the first ones.", rich_help_panel=WRITTEN)
SCORES = typer.Option(
    False, "--scores", help="Write the scores too, if the form has a field for them.", rich_help_panel=WRITTEN
)
DROPPED_FILE = typer.Option(
    None, "--dropped", help="The file for what a filtering miner dropped, and why.", rich_help_panel=WRITTEN
)


@dataclass(frozen=True)
class NegativesTarget:
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
        check_form(self.form, self.output)
        if (self.corpus is not None) != (self.form == "tevatron-v2"):
            raise UsageError(
                "--corpus-output FILE goes with --form tevatron-v2, whose rows hold ids alone; give both or neither"
            )
        if self.corpus is not None and self.corpus.suffix != ".jsonl":
            raise UsageError(f"{self.corpus}: the corpus of tevatron-v2 ends in .jsonl")


def export(
    dataset: str = typer.Option(
        ..., help="The dataset of the negatives.", autocompletion=completion.plugins("datasets")
    ),
    negatives: Path = typer.Option(..., help="The file to read."),
    source_form: str = typer.Option(OWN, "--from", help="Its form, as in --form.", autocompletion=_DONE),
    split: str = _SPLIT,
    form: str = FORM,
    count: int | None = typer.Option(
        None, min=1, help="How many to write for each query; default all.", rich_help_panel=WRITTEN
    ),
    output: Path = OUTPUT_FILE,
    corpus: Path | None = CORPUS,
    overwrite: bool = OVERWRITE,
    settings: list[str] = SET,
    store: Path | None = STORE,
) -> None:
    """Convert negatives from one form to another; texts are matched to the corpus by content.

    Example: hardneg export --dataset beir:scifact --negatives mined.parquet --from n-tuple --form dpr --output dpr.json
    """
    target = NegativesTarget(form, count, output, scores=form == "dpr", corpus=corpus)
    from hardneg.api.content_store import make_dataset

    target.check()
    check_form(source_form, negatives)
    recipe = AdhocRecipe("export", dataset, settings=settings)
    workplace = opened(store)
    workplace.command, workplace.targets, workplace.overwrite = "export", target.files, overwrite
    with workplace.held:
        collection = make_dataset(workplace.begin(recipe, [negatives]), workplace)
        _export_negatives(workplace, collection, (source_form, negatives), split, target)


def _export_negatives(
    workplace: TerminalWorkplace, collection: "Artifact", source: tuple[str, Path], split: str, target: NegativesTarget
) -> None:
    """Writes the negatives of a source, its form and its file, as the target says."""
    from hardneg.api.mined import mined_in
    from hardneg.api.results import TextSource
    from hardneg.formats.export.forms import TextLookup, read_form
    from hardneg.formats.negatives import write_negatives

    form, path = source
    with TemporaryDirectory() as folder:
        texts = TextSource.of(collection, split, workplace.store)
        lookup = TextLookup(texts.collection.queries(split), texts.collection.corpus)
        queries = write_negatives(Path(folder) / NEGATIVES, read_form(form, path, lookup))
        say(f"{path}: {counted(queries, 'query')}")
        tell_left_out(lookup.counts)
        with workplace.outputs.laid_out():
            write(mined_in(form, Path(folder), "", {}, texts), target)


def write(mined: "MinedNegatives", target: NegativesTarget) -> None:
    """Writes negatives as the target says, and tells what was left out."""
    from hardneg.formats.export.forms import write_tevatron_corpus

    counts = dict(mined.write_form(target.output, target.form, target.negatives, target.scores))
    say(f"{target.output}: {counted(counts.pop('rows'), 'row')}, form {target.form}")
    tell_left_out(counts)
    if target.corpus is not None:
        corpus = mined.source.collection.corpus
        say(f"{target.corpus}: {counted(write_tevatron_corpus(target.corpus, corpus), 'document')}")
