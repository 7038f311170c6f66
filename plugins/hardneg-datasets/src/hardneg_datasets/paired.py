"""Topics and qrels of a folder, found by their names."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from hardneg.plugin import errors, queries, source_files, text_lines

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


def paired(
    folder: Path, documents: Sequence[source_files.Part], named: Mapping[str, tuple[str, str]], field: str = "title"
) -> source_files.PartedCollection:
    """The documents with the topics and qrels of each split that a folder has both of.

    Args:
        folder: where topics and qrels are; files of it that have no counterpart are noted.
        documents: the corpus.
        named: for each split its topics and qrels, relative to the folder; empty finds them by the names of the files.
        field: as `topics_part` has it.

    Raises:
        DataError: a named file is missing, two files are of one split, or no split has both.
    """
    topics, qrels = (
        {split: _named_file(folder, names[side]) for split, names in named.items()} or _by_split(folder, patterns)
        for side, patterns in enumerate((_TOPICS, _QRELS))
    )
    both = list(named) or source_files.order_splits(topics.keys() & qrels.keys())
    if not both:
        reason = "no split has both topics and qrels, such as queries.test.tsv and qrels.test.tsv"
        raise errors.DataError(f"{folder}: {reason}; give files these names")
    alone = sorted({**topics, **qrels}[split].name for split in topics.keys() ^ qrels.keys())
    return source_files.PartedCollection(
        documents,
        {split: queries.topics_part(topics[split], split, field) for split in both},
        {split: source_files.qrels_part(qrels[split], split) for split in both},
        [f"{name}: left out, it has no counterpart" for name in alone],
    )


def _named_file(folder: Path, name: str) -> Path:
    path = text_lines.find_file(folder, name)
    if path is None:
        raise errors.DataError(f"{folder}: neither {name} nor {name}.gz, which `splits` names")
    return path


def _by_split(folder: Path, patterns: Sequence[tuple[re.Pattern[str], str]]) -> dict[str, Path]:
    files: dict[str, Path] = {}
    for name in sorted({path.name.removesuffix(".gz") for path in folder.iterdir()}):
        matches = ((pattern.fullmatch(name), form) for pattern, form in patterns)
        split = next((form.format(match[1]) for match, form in matches if match), None)
        if split is None or (path := text_lines.find_file(folder, name)) is None:
            continue
        if split in files:
            raise errors.DataError(
                f"{folder}: {files[split].name} and {name} are both of split {split}; name one in `splits`"
            )
        files[split] = path
    return files
