"""`hardneg export`: negatives in the form that a training program reads, and models in Pyserini's."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import typer

from hardneg.cli import adhoc_recipe, completion
from hardneg.cli.options import SET, STORE, WRITTEN, open_store
from hardneg.cli.outputs import OVERWRITE, Target, store_outputs
from hardneg.cli.printing import say
from hardneg.counting import counted
from hardneg.errors import UsageError

if TYPE_CHECKING:
    from hardneg.data.collection import StoredCollection
    from hardneg.models.positive_scores import PositiveScores

_FORMS = "triplet, n-tuple, labeled-list, tevatron-v1, tevatron-v2, dpr, flagembedding, hardneg."
_ANCE = "ance"
FORMS = completion.words(*_FORMS.rstrip(".").split(", "))
FORM = typer.Option("n-tuple", help=_FORMS, autocompletion=FORMS, rich_help_panel=WRITTEN)
SPLIT = typer.Option("train", help="The queries' split.")
CORPUS = typer.Option(
    None, "--corpus-output", help="For tevatron-v2: write the corpus here too.", rich_help_panel=WRITTEN
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
        from hardneg.data.export.catalogue import check_form

        check_form(self.form, self.output)
        if (self.corpus is not None) != (self.form == "tevatron-v2"):
            raise UsageError(
                "--corpus-output FILE goes with --form tevatron-v2, whose rows hold ids alone; give both or neither"
            )
        if self.corpus is not None and self.corpus.suffix != ".jsonl":
            raise UsageError(f"{self.corpus}: the corpus of tevatron-v2 ends in .jsonl")


@dataclass(frozen=True)
class MinedNegatives:
    """Mined negatives: the folder of the file, what the stage counted, and the scores of the positives if wanted."""

    folder: Path
    facts: Mapping[str, Any]
    collection: "StoredCollection"
    scores: "PositiveScores | None"


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
    settings: list[str] = SET,
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
    from hardneg.data.export.rows import TextLookup
    from hardneg.data.negatives import write_negatives
    from hardneg.fields import DATASET
    from hardneg.layout import NEGATIVES

    target = NegativesTarget(form, count, output, scores=form == "dpr", corpus=corpus)
    target.check()
    check_form(source_form, negatives)
    opened, read = open_store(store), adhoc_recipe.dataset_tree(dataset)
    plan = adhoc_recipe.plan_tree("hardneg export", read, settings)
    outputs = adhoc_recipe.plan_outputs("export", plan, opened, target.files, overwrite, [negatives])
    with outputs.begun(), TemporaryDirectory() as folder:
        made = adhoc_recipe.run_plan(plan, opened, None, until=DATASET)
        collection = StoredCollection.open(made.artifacts[DATASET].path)
        lookup = TextLookup(collection.queries(split), collection.corpus)
        queries = write_negatives(Path(folder) / NEGATIVES, read_form(source_form, negatives, lookup))
        say(f"{negatives}: {counted(queries, 'query')}")
        adhoc_recipe.tell_left_out(lookup.counts)
        with outputs.laid_out():
            write(MinedNegatives(Path(folder), {}, collection, None), split, target)


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


def write(made: MinedNegatives, split: str, target: NegativesTarget) -> None:
    from hardneg.data.export.catalogue import Source, write_form
    from hardneg.data.export.passages import write_tevatron_corpus
    from hardneg.data.export.rows import WriteOptions
    from hardneg.data.negatives import read_negatives
    from hardneg.layout import NEGATIVES

    known = made.scores
    options = WriteOptions(target.negatives, target.scores, (lambda item: known[item.query_id]) if known else None)
    source = Source(made.collection.queries(split), made.collection.corpus)
    counts = write_form(target.form, target.output, read_negatives(made.folder / NEGATIVES), source, options)
    say(f"{target.output}: {counted(counts.pop('rows'), 'row')}, form {target.form}")
    adhoc_recipe.tell_left_out(counts)
    if target.corpus is not None:
        say(f"{target.corpus}: {counted(write_tevatron_corpus(target.corpus, made.collection.corpus), 'document')}")
