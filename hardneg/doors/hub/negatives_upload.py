"""Negatives for the hub: one Parquet file a split, with the metadata that `datasets.load_dataset` reads."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from hardneg.doors.hub.cards import listed, mined_by, origin_section, with_metadata
from hardneg.doors.hub.pushable_files import check_listed
from hardneg.doors.hub.pushed_folder import PushedFolder
from hardneg.doors.hub.recorded_run import RecordedRun
from hardneg.doors.hub.upload import HubFile, Upload
from hardneg.formats.collection import StoredCollection
from hardneg.formats.export.catalogue import OWN
from hardneg.formats.export.forms import WriteOptions, write_form
from hardneg.formats.negatives import read_negatives
from hardneg.formats.vectors.mmap import map_batches
from hardneg.records.errors import ArtifactError, DataError, MissingDependency, UsageError
from hardneg.records.layout import DATASET, NEGATIVES

_SIZES = ((10**3, "n<1K"), (10**4, "1K<n<10K"), (10**5, "10K<n<100K"), (10**6, "100K<n<1M"), (10**7, "1M<n<10M"))
_SPLIT = re.compile(r"\w+(\.\w+)*")  # as `datasets` has it
_COLUMNS = ["query_id", "positives", "negatives", "scores"]
_MOST = "10M<n<100M"
FORMS = (OWN, "triplet", "n-tuple", "labeled-list")
"""The forms of rows: ids (`hardneg`), or texts for sentence-transformers."""


@dataclass(frozen=True)
class Rows:
    """The form of pushed negatives. form: one of `FORMS`. count: how many a query, None for all."""

    form: str = OWN
    count: int | None = None

    def __post_init__(self) -> None:
        if self.form not in FORMS:
            raise UsageError(f"{{form}} {self.form!r}: is one of {', '.join(FORMS)}", "form")


def negatives_upload(pushed: PushedFolder, repo: str, rows: Rows, scratch: Path) -> Upload:
    """The upload of a file of negatives, or of a folder of Parquet files by split; `scratch` takes the tables.

    Raises:
        UsageError: texts need a run folder.
        DataError: it cannot be read.
        ArtifactError: a file has changed since it was written.
    """
    if rows != Rows():
        message = "{form} and {count} go with a run folder, whose texts are known: `hardneg export` writes others"
        raise UsageError(message, "form", "count")
    if pushed.artifact:
        check_listed(pushed.artifact)
    tables = {}
    for split, source in _sources(pushed.folder).items():
        tables[split] = _table(scratch, split)
        _copy(map_batches(source, _COLUMNS) if source.suffix == ".arrow" else _batches(source), tables[split])
    card = _card(repo, tables, ["Passages that rank high and are not labelled as relevant.", *pushed.origin_paragraphs])
    return Upload.of("negatives", card, _files(tables))


def _sources(path: Path) -> dict[str, Path]:
    """The files of negatives by their splits."""
    if path.is_file():
        return {"train": path}
    files = {source.stem: source for source in sorted(path.glob("*.parquet"))}
    if wrong := [name for name in files if not _SPLIT.fullmatch(name)]:
        raise UsageError(f"{path / wrong[0]}.parquet: a split is a word, such as train: give the file another name")
    return files or {"train": path / NEGATIVES}


def run_negatives_upload(run: RecordedRun, repo: str, rows: Rows, scratch: Path) -> Upload:
    """The negatives that a run folder's model was trained with, from the store, with the recipe's lock file.

    Raises:
        UsageError: the model was trained with none.
        ArtifactError: the store has them no more, or they have changed.
    """
    model = run.output("model")
    named = run.references(model, "negatives") if model else []
    stages = named or run.stages("negatives")[-1:]
    if not stages:
        raise UsageError(f"{run.folder}: its recipe mines no negatives: give {{wanted}} model, index or runs", "wanted")
    stage, table = stages[0], {}
    split = run.split(stage)
    table[split] = _table(scratch, split)
    artifact = run.artifact(stage)
    if artifact is None:
        raise ArtifactError(
            f"the store {run.store.root} has no negatives of {stage!r}: name the right one in {{store}}", "store"
        )
    check_listed(artifact)
    if rows == Rows():
        _copy(map_batches(artifact.path / NEGATIVES, _COLUMNS), table[split])
    else:
        mined, options = read_negatives(artifact.path / NEGATIVES), WriteOptions(rows.count)
        dataset = run.store.find(artifact.origin["inputs"].get(DATASET, run.key(DATASET)))
        if dataset is None:
            message = f"the store {run.store.root} has no texts of {run.dataset}: leave {{form}} out, or name {{store}}"
            raise ArtifactError(message, "form", "store")
        collection = StoredCollection.open(dataset.path)
        write_form(rows.form, table[split], mined, collection.queries(split), collection.corpus, options)
    key, keys = artifact.origin["inputs"].get(DATASET), {key: name for name, key in run.lock["keys"].items()}
    written = f" that stage `{keys[key]}` made" if keys.get(key, DATASET) != DATASET else ""
    facts = [f"Negatives of the {split} queries{written} of {run.dataset_title}, {mined_by(run, stage)}."]
    card = _card(repo, table, [*facts, *origin_section(run, stage)])
    return Upload.of("negatives", card, _files(table), lock=run.shown_lock())


def _table(scratch: Path, split: str) -> Path:
    return scratch / f"{split}-00000-of-00001.parquet"


def _batches(path: Path) -> Iterator[pa.RecordBatch]:
    try:
        with parquet.ParquetFile(path) as file:
            yield from file.iter_batches()
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{path}: not a Parquet file: {str(error).splitlines()[0]}") from None


def _copy(batches: Iterable[pa.RecordBatch], path: Path) -> None:
    """Write the rows, without metadata of the source files, such as who wrote them."""
    rows = iter(batches)
    first = next(rows, None)
    if first is None:
        raise DataError("no negatives there: mine some, then push them")
    schema = first.schema.remove_metadata()
    with parquet.ParquetWriter(path, schema) as writer:
        for batch in (first, *rows):
            writer.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=schema))


def _files(tables: dict[str, Path]) -> list[HubFile]:
    return [HubFile(f"data/{path.name}", path) for path in tables.values()]


def _card(repo: str, tables: dict[str, Path], paragraphs: list[str]) -> str:
    from huggingface_hub import DatasetCardData

    counts = {split: parquet.read_metadata(path).num_rows for split, path in tables.items()}
    data: Any = DatasetCardData(
        pretty_name=repo.rpartition("/")[2],
        task_categories=["text-retrieval"],
        tags=["hard-negatives", "sentence-transformers", "hardneg"],
        size_categories=[next((name for most, name in _SIZES if sum(counts.values()) < most), _MOST)],
    )
    _describe(data, tables)
    schema = parquet.read_schema(next(iter(tables.values())))
    facts = {
        "Rows": ", ".join(f"{count:,} in `{split}`" for split, count in counts.items()),
        "Columns": ", ".join(f"`{name}`" for name in schema.names),
    }
    first = next(iter(tables))
    lines = ["from datasets import load_dataset", "", f'negatives = load_dataset("{repo}", split="{first}")']
    use = "\n".join(["```python", *lines, "```"])
    return with_metadata(data, ["# Hard negatives", *paragraphs[:1], listed(facts), *paragraphs[1:], "## Use", use])


def _describe(data: Any, tables: dict[str, Path]) -> None:
    """Add the metadata that `datasets` itself writes: the files of each split, column types, row counts."""
    try:
        from datasets import DatasetInfo, Features, SplitDict, SplitInfo
        from datasets.info import DatasetInfosDict
        from datasets.utils.metadata import MetadataConfigs
    except ImportError as error:
        raise MissingDependency('negatives on the hub need datasets: pip install "hardneg[hub]"') from error
    splits, sizes = SplitDict(), []
    for split, path in tables.items():
        metadata = parquet.read_metadata(path)
        sizes.append(sum(metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups)))
        splits.add(SplitInfo(split, num_bytes=sizes[-1], num_examples=metadata.num_rows))
    features = Features.from_arrow_schema(parquet.read_schema(next(iter(tables.values()))))
    stored = sum(path.stat().st_size for path in tables.values())
    info = DatasetInfo(features=features, splits=splits, download_size=stored, dataset_size=sum(sizes))
    DatasetInfosDict(default=info).to_dataset_card_data(data)
    data_files = [{"split": split, "path": f"data/{path.name}"} for split, path in tables.items()]
    MetadataConfigs(default={"data_files": data_files}).to_dataset_card_data(data)
