"""A collection as files that are read part by part."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TypeVar, cast

from hardneg.formats.source_files import Part, records
from hardneg.formats.text_lines import checked_id
from hardneg.records.errors import DataError
from hardneg.records.types import Document, Judgement, Query
from hardneg.records.wording import counted
from hardneg.store.digest import tree_digest

_T = TypeVar("_T", Document, Query, Judgement)


@dataclass(frozen=True)
class PartedCollection:
    """Documents, and queries and judgements by split, as parts; a split's queries are those that its qrels name.

    left_out: one line for each file that is not read. all_queries: queries that no judgement names stay.
    """

    documents_in: Sequence[Part]
    queries_in: Mapping[str, Part]
    qrels_in: Mapping[str, Part]
    left_out: Sequence[str] = ()
    all_queries: bool = False
    _used: dict[str, set[str]] = field(default_factory=dict)
    _totals: dict[str, int] = field(default_factory=dict)

    def documents(self) -> Iterator[Document]:
        """The corpus, in the files' order."""
        return chain.from_iterable(_plain(part, Document) for part in self.documents_in)

    def splits(self) -> Sequence[str]:
        """The splits that have queries and qrels."""
        return list(self.queries_in)

    def queries(self, split: str) -> Iterator[Query]:
        """The queries that the split's qrels name, in the file's order.

        Raises:
            DataError: an id occurs twice, is empty or has white space.
        """
        part = self.queries_in[split]
        named = None if self.all_queries else {judgement.query_id for judgement in self.qrels(split)}
        seen, used = set[str](), self._used.setdefault(part.name, set())
        for number, query in cast(Iterator[tuple[int, Query]], records(part)):
            checked_id(part.name, number, query.query_id)
            if query.query_id in seen:
                raise DataError.at(part.name, number, f"query id {query.query_id!r} stands there twice")
            seen.add(query.query_id)
            if named is None or query.query_id in named:
                used.add(query.query_id)
                yield query
        self._totals[part.name] = len(seen)

    def qrels(self, split: str) -> Iterator[Judgement]:
        """The judgements of one split."""
        return _plain(self.qrels_in[split], Judgement)

    def notes(self) -> Sequence[str]:
        """Files that are not read, and how many queries no judgement names."""
        left = {source: total - len(self._used[source]) for source, total in self._totals.items()}
        told = ((source, counted(count, "query")) for source, count in left.items() if count)
        unjudged = [f"{source}: {queries} left out: no judgement names them" for source, queries in told]
        return [*self.left_out, *unjudged]

    def parts(self) -> Iterator[Part]:
        """All files, documents first, then queries, then judgements."""
        yield from self.documents_in
        yield from dict.fromkeys(self.queries_in.values())
        yield from self.qrels_in.values()

    def digest(self, root: Path) -> str:
        """A digest of the bytes of all files, which are named relative to `root`."""
        names = dict.fromkeys(Path(part.name).relative_to(root).as_posix() for part in self.parts())
        return tree_digest(root, list(names))


def _plain(part: Part, record_type: type[_T]) -> Iterator[_T]:
    return (record for _, record in records(part) if isinstance(record, record_type))
