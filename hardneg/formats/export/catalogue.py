"""All forms by name: how each is written, how it is read back, and the endings its files may have."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from hardneg.formats.corpus import Corpus
from hardneg.formats.export import passages
from hardneg.formats.export import sentence_transformers as st
from hardneg.formats.export.export_rows import (
    Counts,
    ExportRow,
    NoRows,
    TextLookup,
    WriteOptions,
    check_rows,
    gather,
    merged,
)
from hardneg.formats.negatives import read_negatives, write_negatives
from hardneg.formats.queries import Queries
from hardneg.records.errors import DataError, UsageError
from hardneg.records.types import Negatives

OWN = "hardneg"


@dataclass(frozen=True)
class Form:
    """endings: of its files. several_rows: a query may have several, which are joined when read."""

    write: Callable[[Path, Iterable[ExportRow], WriteOptions, Counts], int]
    read: Callable[[Path, TextLookup], Iterator[Negatives]]
    endings: tuple[str, ...]
    several_rows: bool = False


_TABLES, _LINES = (".parquet", ".jsonl"), (".jsonl",)
FORMS: Mapping[str, Form] = {
    "triplet": Form(st.write_triplets, st.read_triplets, _TABLES, True),
    "n-tuple": Form(st.write_n_tuples, st.read_n_tuples, _TABLES, True),
    "labeled-list": Form(st.write_labeled_lists, st.read_labeled_lists, _TABLES, True),
    "tevatron-v1": Form(passages.write_tevatron_v1, passages.read_tevatron_v1, _LINES),
    "tevatron-v2": Form(passages.write_tevatron_v2, passages.read_tevatron_v2, _LINES),
    "dpr": Form(passages.write_dpr, passages.read_dpr, (".json",)),
    "flagembedding": Form(passages.write_flagembedding, passages.read_flagembedding, _LINES, True),
}
NAMES = (*FORMS, OWN)


def check_form(form: str, path: Path) -> None:
    """Refuses an unknown form, or a file's ending that it does not have.

    Raises:
        UsageError: it is unknown, or the file cannot be of this form.
    """
    if form not in NAMES:
        raise UsageError(f"no form is called {form!r}; there are: {', '.join(NAMES)}")
    endings = FORMS[form].endings if form in FORMS else (".arrow",)
    if path.suffix not in endings:
        raise UsageError(f"{path}: a file of form {form} ends in {' or '.join(endings)}")


@dataclass(frozen=True)
class Source:
    """What ids stand for: the queries of one split, and the corpus."""

    queries: Queries
    corpus: Corpus


def write_form(
    form: str, path: Path, negatives: Iterable[Negatives], source: Source, options: WriteOptions
) -> dict[str, int]:
    """Writes negatives in a form, streaming, whole or not at all; returns `rows` and what was left out, by reason.

    Raises:
        UsageError: the form is unknown, or the file's ending is not one of its own.
        DataError: a query or document is unknown, or no query can have a row.
    """
    check_form(form, path)
    counts: Counts = Counter()
    try:
        if form == OWN:
            return {"rows": write_negatives(path, _cut(negatives, options.negatives, counts))}
        gathered = gather(negatives, source.queries, source.corpus, options, counts)
        rows = FORMS[form].write(path, gathered, options, counts)
    except NoRows as error:
        lost = ", ".join(f"{reason} ({count:,})" for reason, count in counts.items() if count)
        raise DataError(f"form {form}: {error}{lost and f': {lost}'}; take more negatives, or write fewer") from None
    return {"rows": rows, **{reason: count for reason, count in counts.items() if count}}


def read_form(form: str, path: Path, lookup: TextLookup) -> Iterator[Negatives]:
    """The negatives of a file in any form; what cannot be found in the collection is counted in `lookup.counts`.

    Raises:
        UsageError: the form is unknown or the file's ending is not one of its own.
        DataError: a row is not of the form; the message names its line.
    """
    check_form(form, path)
    if form == OWN:
        return iter(read_negatives(path))
    items = FORMS[form].read(path, lookup)
    return merged(items) if FORMS[form].several_rows else items


def _cut(negatives: Iterable[Negatives], limit: int | None, counts: Counts) -> Iterator[Negatives]:
    """The first of each query's negatives. Raises NoRows at the end where no query has any."""
    some = 0
    for item in negatives:
        some += bool(item.negatives)
        counts["queries without a negative"] += not item.negatives
        yield Negatives(item.query_id, item.positives, item.negatives[:limit], item.scores[:limit], item.dropped)
    check_rows(some)
