"""A collection as files that are read part by part, and how its topics and qrels are found by their names."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TypeVar, cast

from hardneg.formats.queries import topics_part
from hardneg.formats.source_files import Part, order_splits, qrels_part, records
from hardneg.formats.text_lines import checked_id, find_file
from hardneg.records.errors import DataError
from hardneg.records.types import Document, Judgement, Query
from hardneg.records.wording import counted
from hardneg.store.digest import tree_digest

_TOPICS = (
    (re.compile(r"(?:queries|topics)\.(.+)\.(?:tsv|txt|jsonl|trec|xml)"), "{}"),
    (re.compile(r"msmarco-doc([a-z]+)-queries\.tsv"), "{}"),
    (re.compile(r"msmarco-(test[0-9]{4})-queries\.tsv"), "{}"),
)
_QRELS = (
    (re.compile(r"qrels\.(.+)\.(?:tsv|txt)"), "{}"),
    (re.compile(r"msmarco-doc([a-z]+)-qrels\.tsv"), "{}"),
    (re.compile(r"([0-9]{4})qrels-docs\.txt"), "test{}"),
)
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


def paired(
    folder: Path, documents: Sequence[Part], named: Mapping[str, tuple[str, str]], field: str = "title"
) -> PartedCollection:
    """The documents with the topics and qrels of each split that a folder has both of.

    Args:
        folder: where topics and qrels are; files of it that have no counterpart are noted.
        documents: the corpus.
        named: for each split its topics and qrels, relative to the folder; empty finds them by the names of the files.
        field: as `hardneg.formats.queries.topics_part` has it.

    Raises:
        DataError: a named file is missing, two files are of one split, or no split has both.
    """
    topics, qrels = (
        {split: _named_file(folder, names[side]) for split, names in named.items()} or _by_split(folder, patterns)
        for side, patterns in enumerate((_TOPICS, _QRELS))
    )
    both = list(named) or order_splits(topics.keys() & qrels.keys())
    if not both:
        reason = "no split has both topics and qrels, such as queries.test.tsv and qrels.test.tsv"
        raise DataError(f"{folder}: {reason}; give files these names")
    alone = sorted({**topics, **qrels}[split].name for split in topics.keys() ^ qrels.keys())
    return PartedCollection(
        documents,
        {split: topics_part(topics[split], split, field) for split in both},
        {split: qrels_part(qrels[split], split) for split in both},
        [f"{name}: left out, it has no counterpart" for name in alone],
    )


def _named_file(folder: Path, name: str) -> Path:
    path = find_file(folder, name)
    if path is None:
        raise DataError(f"{folder}: neither {name} nor {name}.gz, which `splits` names")
    return path


def _by_split(folder: Path, patterns: Sequence[tuple[re.Pattern[str], str]]) -> dict[str, Path]:
    files: dict[str, Path] = {}
    for name in sorted({path.name.removesuffix(".gz") for path in folder.iterdir()}):
        matches = ((pattern.fullmatch(name), form) for pattern, form in patterns)
        split = next((form.format(match[1]) for match, form in matches if match), None)
        if split is None or (path := find_file(folder, name)) is None:
            continue
        if split in files:
            raise DataError(f"{folder}: {files[split].name} and {name} are both of split {split}; name one in `splits`")
        files[split] = path
    return files
