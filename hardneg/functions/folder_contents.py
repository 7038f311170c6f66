"""What a folder holds: documents, maybe queries beside them, maybe judgements, in a form that a dataset loader reads.

A loader's `known_by` are the names of files by which folders of its form are known.
"""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardneg.datasets.document_files import ROWS
from hardneg.formats.queries import read_query_file
from hardneg.formats.text_lines import no_folder
from hardneg.records import DOCUMENTS, Collection, DataError, PluginSetting, UsageError, counted
from hardneg.registry import configure, load_plugin, plugin_names

if TYPE_CHECKING:
    from hardneg.datasets.documents import DocumentFolder

_QUERIES = ("queries.jsonl", "queries.tsv", "queries.txt", "queries.*", "topics.*")
_FEW = 50
"""Documents: fewer leave one of two splits with a tenth each empty in more than a hundredth of the cases."""
_FEW_PASSAGES = 200_000
"""So many judged documents are looked at for their ids."""
_READ = 8 << 20
"""Files of so many bytes together are read and cut, to count their passages and to find what cannot be read."""
_FORMS = "queries are lines of an id, a tab and a text in queries.tsv, judgements belong to a folder of BEIR's form"
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
        loader, _, source = os.fspath(folder).partition(":")  # the name that other commands take, beir:FOLDER
        folder = Path(source) if source and loader in plugin_names("datasets") and not folder.exists() else folder
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
        others = [path for path in [*named, *sorted(folder.glob("*qrels*"))] if path.is_file() and path not in files]
        plain = next((name for name in forms if "judged" in load_plugin("datasets", name).__dataclass_fields__), None)
        without = [path.name for path in (*files, *others)]
        options: dict[str, Any] = {"judged": False} if plain else {"without": without}
        options = {name: value for name, value in {**options, "glob": glob}.items() if value not in ([], None)}
        dataset = {"name": plain or DOCUMENTS, "source": os.fspath(folder), **options}
        left_out, few = [f"{path.name}: not read, {files[0].name} is" for path in files[1:]], False
        qrels = [folder / "qrels"] if (folder / "qrels").is_dir() else []
        left_out += [f"{path.name}: not read; {_FORMS}" for path in (*others, *qrels)]
        size = 0
        if not plain:
            opened = _configured(dataset).load()
            size, few = _counted(opened)
            left_out += opened.notes()
        size = size or _configured(dataset).size_hint()
        texts = [each.text for each in read_query_file(files[0], {}, Counter())] if files else []
        if files and not texts:
            raise DataError(f"{files[0]}: no query in it; fill it in, or take it out of the folder")
        return cls(folder, dataset, size, {}, files[0] if files else None, texts, left_out, few)


def _configured(dataset: Mapping[str, Any]) -> Any:
    options = {name: value for name, value in dataset.items() if name != "name"}
    return configure("datasets", PluginSetting(dataset["name"], options))


def _counted(opened: "DocumentFolder") -> tuple[int, bool]:
    """How many passages a folder has, 0 where it is too large to be read now; and whether its documents are few.

    Raises:
        DataError: what cannot be read, all of it; or there is no text.
    """
    if sum(path.stat().st_size for path in opened.files) > _READ:
        return 0, len(opened.files) < _FEW and not any(path.suffix.lower() in ROWS for path in opened.files)
    if not (passages := sum(1 for _ in opened.documents())):
        raise DataError(f"{opened.folder}: no text in {counted(len(opened.files), 'file')}; add documents")
    return passages, len({each.group for each in opened.groups("document")}) < _FEW


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
        judged, left_out, trained = dict[str, int](), list[str](), set[str]()
        small = loader.size_hint() <= _FEW_PASSAGES
        doc_ids = {each.doc_id for each in collection.documents()} if small else None
        for split in collection.splits():
            relevant = [each for each in collection.qrels(split) if each.relevance > 0]
            query_ids = {each.query_id for each in collection.queries(split)}
            known = {each.query_id for each in relevant if doc_ids is None or each.doc_id in doc_ids} & query_ids
            judged[split] = len(known)
            if lacking := len({each.query_id for each in relevant}) - len(known):
                reason = "whose query or documents the folder lacks"
                left_out.append(f"{split}: judgements of {counted(lacking, 'query')} left out, {reason}")
            if shared := known & trained:  # train is the first split
                also = counted(len(shared), "query is", "queries are")
                left_out.append(f"{split}: {also} in train too: that measures memory")
            trained |= known if split == "train" else set()
        return FolderContents(folder, dataset, loader.size_hint(), judged, left_out=left_out)
    if errors and any(folder.glob("*qrels*")):
        raise errors[0]
    return None
