"""All forms by name: how each is written, how it is read back, and the endings its files may have; light to import."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardneg.records.errors import DataError, UsageError

if TYPE_CHECKING:
    from hardneg.formats.corpus import Corpus
    from hardneg.formats.export.export_rows import Counts, TextLookup, WriteOptions
    from hardneg.formats.queries import Queries
    from hardneg.records.types import Negatives

OWN = "hardneg"


@dataclass(frozen=True)
class Form:
    """home: module and rows of the functions that write and read it; endings: of its files.

    several_rows: a query may have several, which are joined when read.
    """

    home: str
    endings: tuple[str, ...]
    several_rows: bool = False

    def function(self, verb: str) -> Callable[..., Any]:
        """What writes or reads it, imported now."""
        module, _, rows = self.home.partition(":")
        function: Callable[..., Any] = getattr(import_module(f"hardneg.formats.export.{module}"), f"{verb}_{rows}")
        return function


_TABLES, _LINES = (".parquet", ".jsonl"), (".jsonl",)
FORMS: Mapping[str, Form] = {
    "triplet": Form("sentence_transformers:triplets", _TABLES, True),
    "n-tuple": Form("sentence_transformers:n_tuples", _TABLES, True),
    "labeled-list": Form("sentence_transformers:labeled_lists", _TABLES, True),
    "tevatron-v1": Form("passages:tevatron_v1", _LINES),
    "tevatron-v2": Form("passages:tevatron_v2", _LINES),
    "dpr": Form("passages:dpr", (".json",)),
    "flagembedding": Form("passages:flagembedding", _LINES, True),
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

    queries: "Queries"
    corpus: "Corpus"


def write_form(
    form: str, path: Path, negatives: "Iterable[Negatives]", source: Source, options: "WriteOptions"
) -> dict[str, int]:
    """Writes negatives in a form, streaming, whole or not at all; returns `rows` and what was left out, by reason.

    Raises:
        UsageError: the form is unknown, or the file's ending is not one of its own.
        DataError: a query or document is unknown, or no query can have a row.
    """
    from hardneg.formats.export.export_rows import NoRows, gather
    from hardneg.formats.negatives import write_negatives

    check_form(form, path)
    counts: Counts = Counter()
    try:
        if form == OWN:
            rows = write_negatives(path, _cut(negatives, options.negatives, counts))
        else:
            gathered = gather(negatives, source.queries, source.corpus, options, counts)
            rows = FORMS[form].function("write")(path, gathered, options, counts)
    except NoRows as error:
        lost = ", ".join(f"{reason} ({count:,})" for reason, count in counts.items() if count)
        raise DataError(f"form {form}: {error}{lost and f': {lost}'}; take more negatives, or write fewer") from None
    return {"rows": rows, **{reason: count for reason, count in counts.items() if count}}


def read_form(form: str, path: Path, lookup: "TextLookup") -> "Iterator[Negatives]":
    """The negatives of a file in any form; what cannot be found in the collection is counted in `lookup.counts`.

    Raises:
        UsageError: the form is unknown or the file's ending is not one of its own.
        DataError: a row is not of the form; the message names its line.
    """
    from hardneg.formats.export.export_rows import merged
    from hardneg.formats.negatives import read_negatives

    check_form(form, path)
    if form == OWN:
        return iter(read_negatives(path))
    items = FORMS[form].function("read")(path, lookup)
    return merged(items) if FORMS[form].several_rows else items


def _cut(negatives: "Iterable[Negatives]", limit: int | None, counts: "Counts") -> "Iterator[Negatives]":
    """The first of each query's negatives. Raises NoRows at the end where no query has any."""
    from hardneg.formats.export.export_rows import check_rows, count_beyond
    from hardneg.records.types import Negatives

    some = 0
    for item in negatives:
        some += bool(item.negatives)
        counts["queries without a negative"] += not item.negatives
        count_beyond(item, limit, counts)
        yield Negatives(item.query_id, item.positives, item.negatives[:limit], item.scores[:limit], item.dropped)
    check_rows(some)
