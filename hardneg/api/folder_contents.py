"""What a folder holds: documents, maybe queries beside them, maybe judgements, in a form that a dataset loader reads.

A loader's `known_by` are the names of files by which folders of its form are known.
"""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hardneg.formats.queries import read_query_file
from hardneg.formats.text_lines import no_folder
from hardneg.records.errors import DataError, UsageError
from hardneg.records.named_plugins import DOCUMENTS
from hardneg.records.types import Collection, PluginSetting
from hardneg.records.wording import counted
from hardneg.registry.plugins import configure, load_plugin, plugin_names

PYTHON = "py"
"""The form of `documents` that is read only if it is named."""
_QUERIES = ("queries.jsonl", "queries.tsv", "queries.txt", "queries.*", "topics.*")
_ROWS = frozenset({".jsonl", ".csv"})
"""Files of which each row is a document."""
_FEW = 50
"""Documents: fewer leave one of two splits with a tenth each empty in more than a hundredth of the cases."""
_SUFFIXES = frozenset({".jsonl", ".tsv", ".txt", ".trec", ".gz"})


@dataclass(frozen=True)
class FolderContents:
    """What was seen in a folder.

    dataset: as a recipe names it. documents: about how many there are, or passages of them. judged: by split the
    queries with a relevant document. queries: a file of queries that nobody has judged; own_queries: their texts.
    left_out: a line for each thing that is not read. few: whether the documents are too few for splits by document.
    """

    folder: Path
    dataset: Mapping[str, Any]
    documents: int
    judged: Mapping[str, int] = field(default_factory=dict)
    queries: Path | None = None
    own_queries: Sequence[str] = ()
    left_out: Sequence[str] = ()
    few: bool = False

    @classmethod
    def of(cls, folder: Path, glob: str | None = None) -> "FolderContents":
        """Looks into a folder; queries and judgements are counted, documents estimated.

        glob: which documents are read; by default all.

        Raises:
            DataError: there is no such folder, nothing in it that is read, or files of a form that are no collection.
            UsageError: a glob for a form whose files have names of their own.
        """
        folder = folder.expanduser().absolute()
        if not folder.is_dir():
            raise no_folder(folder)
        marks = {name: getattr(load_plugin("datasets", name), "known_by", ()) for name in plugin_names("datasets")}
        forms = [name for name, patterns in marks.items() if any(any(folder.glob(each)) for each in patterns)]
        if glob and forms:
            raise UsageError(f"{folder}: read as {forms[0]}, whose files have names of their own; no {{glob}}", "glob")
        if judged := _first_judged(folder, forms):
            return judged
        named = dict.fromkeys(path for pattern in _QUERIES for path in sorted(folder.glob(pattern)))
        files = [path for path in named if path.is_file() and path.suffix in _SUFFIXES]
        plain = next((name for name in forms if "judged" in load_plugin("datasets", name).__dataclass_fields__), None)
        options = {"judged": False} if plain else {"without": [path.name for path in files]} if files else {}
        options |= {"glob": glob} if glob else {}
        dataset = {"name": plain or DOCUMENTS, "source": os.fspath(folder), **options}
        left_out, few = [f"{path.name}: not read, {files[0].name} is" for path in files[1:]], False
        if not plain:
            dataset, opened = _documents(dataset)
            left_out += opened.notes()
            few = len(opened.files) < _FEW and not any(path.suffix.lower() in _ROWS for path in opened.files)
        loader = _configured(dataset)
        texts = [each.text for each in read_query_file(files[0], {}, Counter())] if files else []
        if files and not texts:
            raise DataError(f"{files[0]}: no query in it; fill it in, or take it out of the folder")
        return cls(folder, dataset, loader.size_hint(), {}, files[0] if files else None, texts, left_out, few)


def _configured(dataset: Mapping[str, Any]) -> Any:
    options = {name: value for name, value in dataset.items() if name != "name"}
    return configure("datasets", PluginSetting(dataset["name"], options))


def _documents(dataset: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
    """The dataset of a folder of files, as Python's where there are no others, and the same opened.

    Raises:
        DataError: there is no file that is read.
    """
    try:
        return dict(dataset), _configured(dataset).load()
    except DataError as error:
        code = {**dataset, "forms": [PYTHON]}
        try:
            return code, _configured(code).load()
        except DataError:
            raise error from None


def _first_judged(folder: Path, forms: Sequence[str]) -> FolderContents | None:
    """The contents in the first form that can be read with judgements; None where the folder seems to have none.

    Raises:
        DataError: it seems to have some, and no form can be read.
    """
    errors = []
    for name in forms:
        dataset = {"name": name, "source": os.fspath(folder)}
        loader = _configured(dataset)
        try:
            collection: Collection = loader.load()
        except DataError as error:
            errors.append(error)
            continue
        judged, left_out = dict[str, int](), list[str]()
        for split in collection.splits():
            relevant = {each.query_id for each in collection.qrels(split) if each.relevance > 0}
            known = relevant & {each.query_id for each in collection.queries(split)}
            judged[split] = len(known)
            if lacking := len(relevant) - len(known):
                left_out.append(f"{split}: judgements of {counted(lacking, 'query')} left out, which the folder lacks")
        return FolderContents(folder, dataset, loader.size_hint(), judged, left_out=left_out)
    if errors and any(folder.glob("*qrels*")):
        raise errors[0]
    return None
