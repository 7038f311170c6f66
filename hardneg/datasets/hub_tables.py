"""Tables of the Hugging Face hub, or of local folders of that layout, as streams of numbered rows."""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from hardneg.formats.source_files import Part, Record
from hardneg.formats.text_lines import one_word
from hardneg.records import DataError, Lookup, MissingDependency, first_line
from hardneg.store import file_digest, tree_digest

_SPLIT_NAMES = {"validation": "dev", "valid": "dev", "val": "dev"}
_COMMIT_DIGITS = 40
CONVERTED = "refs/convert/"
_SCRIPT = re.compile(r"scripts are no longer supported, but found (\S+)")
_PART = "partial-"


@dataclass(frozen=True)
class HubTable:
    """Where one table is. What is None follows from the loader's `source` and the usual layouts.

    repo: a hub id or a local folder.
    config: the configuration of the repository; in a plain local folder, the subfolder or file stem.
    split: the one split to read; None reads all.
    revision: a branch, tag or commit of `repo`.
    """

    repo: str | None = None
    config: str | None = None
    split: str | None = None
    revision: str | None = None

    @property
    def title(self) -> str:
        """Repository and configuration, as errors name them."""
        return f"{self.repo}[{self.config or 'default'}]"

    @property
    def local(self) -> Path | None:
        """The folder, where `repo` is one on this machine."""
        path = Path(self.repo or "").expanduser()
        return path if self.repo and path.exists() else None


def open_table(table: HubTable) -> dict[str, Any]:
    """The table's splits by name (`validation` is `dev`), opened as streaming datasets.

    Raises:
        DataError: it cannot be found or reached, or has no such split.
        MissingDependency: the `datasets` package is not installed.
    """
    with _refusals(table) as datasets:
        opened = datasets.load_dataset(**_arguments(table, datasets), streaming=True)
        splits = {_SPLIT_NAMES.get(str(name), str(name)): value for name, value in opened.items()}
        wanted = _SPLIT_NAMES.get(table.split or "", table.split)
        if not splits or (wanted is not None and wanted not in splits):
            there = ", ".join(splits) or "none"
            raise DataError(f"{table.title}: no split {table.split or 'at all'!r}; it has {there}")
        return splits if wanted is None else {wanted: splits[wanted]}


@contextmanager
def _refusals(table: HubTable) -> Iterator[Any]:
    """The `datasets` package, for a block in which what the hub's client raises becomes the error for it."""
    try:
        import datasets
    except ImportError as error:
        raise MissingDependency('Hugging Face data needs datasets: pip install "hardneg[hub]"') from error
    try:
        yield datasets
    except DataError:
        raise
    except Exception as error:
        raise _refusal(table, error) from error


def numbered_rows(title: str, rows: Iterable[Any]) -> Iterator[tuple[int, Any]]:
    """The rows of what errors call `title` with their numbers, from 1. Raises DataError where reading fails halfway."""
    stream = iter(rows)
    for number in count(1):
        try:
            row = next(stream)
        except StopIteration:
            return
        except Exception as error:
            raise DataError.at(title, number, f"cannot be read: {first_line(error)}") from error
        yield number, row


def row_part(
    title: str,
    rows: Callable[[], Iterable[Any]],
    parse: Callable[[str, int, Any], Iterable[Record]],
    split: str | None = None,
) -> Part:
    """The records of a table, or another stream of rows, that errors call `title`; `parse` makes those of a row."""

    def read() -> Iterator[tuple[int, Record | DataError]]:
        try:
            for number, row in numbered_rows(title, rows()):
                try:
                    yield from ((number, record) for record in parse(title, number, row))
                except DataError as error:
                    yield number, error
        except DataError as error:
            yield 0, error

    return Part(title, read, split)


def table_digest(table: HubTable) -> str:
    """A name for a repository's content: a digest of a local folder's files, or the hub's commit.

    A revision that is a whole commit hash is taken as it is; any other is looked up on the hub.

    Raises:
        DataError: the hub cannot be reached, or has no such repository.
    """
    if table.local is not None:
        if table.local.is_file():
            return file_digest(table.local)
        paths = (path.relative_to(table.local) for path in table.local.rglob("*"))
        visible = (path.as_posix() for path in paths if not any(part.startswith(".") for part in path.parts))
        return tree_digest(table.local, visible)
    revision = table.revision or ""
    if len(revision) == _COMMIT_DIGITS and set(revision) <= set("0123456789abcdef"):
        return revision
    from huggingface_hub import HfApi

    with _refusals(table):
        return str(HfApi().dataset_info(str(table.repo), revision=table.revision).sha)


def count_rows(table: HubTable) -> int:
    """How many rows a table has by its metadata, nothing read; 0 where that is not known."""
    with suppress(Exception), _refusals(table) as datasets:
        builder = datasets.load_dataset_builder(**_arguments(table, datasets))
        return sum(split.num_examples or 0 for split in (builder.info.splits or {}).values())
    return 0


def _arguments(table: HubTable, datasets: Any) -> dict[str, Any]:
    if table.local is None:
        named = {"path": table.repo, "revision": table.revision}
        converted = (table.revision or "").startswith(CONVERTED)
        return named | ({"data_files": _whole_splits(table)} if converted else {"name": table.config})
    for suffix, builder in ((".parquet", "parquet"), (".jsonl", "json"), (".jsonl.gz", "json")):
        path = table.local / f"{table.config}{suffix}"
        if path.is_file():
            return {"path": builder, "data_files": {"all": str(path)}}
    folder = str(table.local)
    if table.config is None or table.config in datasets.get_dataset_config_names(folder):
        return {"path": folder, "name": table.config}
    if not (table.local / table.config).is_dir():
        raise FileNotFoundError(f"no configuration, subfolder, .parquet or .jsonl file {table.config!r}")
    return {"path": folder, "data_dir": table.config}


def _whole_splits(table: HubTable) -> dict[str, list[str]]:
    """The files of one configuration of a converted branch by split: CONFIGURATION/SPLIT/NUMBER.parquet.

    Raises:
        DataError: there is no such configuration, or the branch holds the first gigabytes of a split alone.
    """
    from huggingface_hub import HfApi

    paths = HfApi().list_repo_files(str(table.repo), repo_type="dataset", revision=table.revision)
    placed = [path.split("/") for path in sorted(paths) if path.endswith(".parquet") and path.count("/") == 2]
    configs = sorted({config for config, *_ in placed})
    wanted = table.config or (configs[0] if len(configs) == 1 else "default")
    splits: dict[str, list[str]] = {}
    for config, split, name in placed:
        if config == wanted:
            splits.setdefault(split, []).append(f"{config}/{split}/{name}")
    if not splits:
        reason = f"no configuration {wanted!r} in the converted branch; it has {', '.join(configs)}"
        raise DataError(f"{table.title}: {reason}")
    if cut := [split for split in splits if split.startswith(_PART)]:
        reason = f"the converted branch holds a part alone ({wanted}/{cut[0]}), as it does of large tables"
        raise DataError(f"{table.title}: {reason}; take a repository in Parquet or JSON Lines, or the original files")
    return splits


def _value(where: str, number: int, row: dict[str, Any], column: str) -> Any:
    if column not in row:
        known = ", ".join(row)
        raise DataError.at(where, number, f"no column {column!r} among {known}; name it in `columns`")
    return row[column]


def text_cell(where: str, number: int, row: dict[str, Any], column: str) -> str:
    """The text in a column. Raises DataError where it is missing or no text."""
    value = _value(where, number, row, column)
    if not isinstance(value, str):
        raise DataError.at(where, number, f"column {column!r} must hold text, not {value!r:.40}")
    return value


def id_cell(where: str, number: int, row: dict[str, Any], column: str) -> str:
    """The id in a column, maybe a whole number. Raises DataError where it is missing or not one word."""
    value = _value(where, number, row, column)
    name = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(name, str) or not one_word(name):
        raise DataError.at(where, number, f"column {column!r} must hold ids of one word, not {value!r:.40}")
    return name


def whole_cell(where: str, number: int, row: dict[str, Any], column: str) -> int:
    """The whole number in a column. Raises DataError where it is missing or something else."""
    value = _value(where, number, row, column)
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
        raise DataError.at(where, number, f"column {column!r} must hold whole numbers, not {value!r:.40}")
    return int(value)


def _refusal(table: HubTable, error: Exception) -> DataError:
    """The error for what the hub's client raised, with what to do about it."""
    from huggingface_hub import constants

    opening = f"{table.title}{f' at revision {table.revision}' if table.revision else ''} cannot be opened:"
    if script := _SCRIPT.search(str(error)):
        owner, _, name = str(table.repo).partition("/")
        instead = f"take its converted branch, dataset.revision={CONVERTED}parquet"
        instead = f"take hf:mteb/{name}, which has the same data" if owner.lower() == "beir" else instead
        reason = f"the repository holds a loading script ({script[1]}), which is never executed"
        return DataError(f"{opening} {reason}; {instead}")
    if "gated" in str(error).lower():
        terms = f"accept its terms on {constants.ENDPOINT}/datasets/{table.repo}, then `hf auth login`"
        return DataError(f"{opening} it is gated; {terms}")
    reason = first_line(error).rstrip(".")
    return DataError(f"{opening} {reason}; check the name and the network, or give a local folder")


class TableLoader:
    """A loader of tables, of which the first is the corpus."""

    def tables(self) -> tuple[HubTable, ...]:
        """The tables, that of the corpus first."""
        raise NotImplementedError

    def look_up(self) -> Lookup:
        """How many documents there are, if that is known. Raises DataError where a table cannot be had."""
        for table in self.tables():
            with _refusals(table) as datasets:
                datasets.load_dataset_builder(**_arguments(table, datasets))
        documents = self.size_hint()
        return Lookup(note=f"about {documents:,} documents" if documents else "")

    def size_hint(self) -> int:
        """The number of documents by the repository's metadata, 0 where that does not say."""
        return count_rows(self.tables()[0])

    def corpus_rows(self) -> tuple[str, Any]:
        """Title and rows of the corpus. Raises DataError where it has several splits."""
        table = self.tables()[0]
        splits = open_table(table)
        if len(splits) != 1:
            raise DataError(f"{table.title}: splits {', '.join(splits)}; choose one as `corpus.split`")
        return table.title, partial(iter, *splits.values())
