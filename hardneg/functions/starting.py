"""`hardneg.start`: from a folder of documents, maybe with queries and judgements, to a recipe that fits, and results.

A dataset loader's `known_by` are the names of files by which folders of its form are known.
"""

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from shlex import quote
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from hardneg import recipes
from hardneg.datasets.document_files import ROWS
from hardneg.formats.queries import read_query_file
from hardneg.formats.text_lines import no_folder
from hardneg.functions.arguments import Model, file_path
from hardneg.functions.given import named_model
from hardneg.functions.recipes import ChosenRecipe, RunFolder
from hardneg.functions.results import writing
from hardneg.functions.session import Session
from hardneg.records import BM25, DOCUMENTS, TOPK, Collection, DataError, PluginSetting, UsageError, counted
from hardneg.registry import configure, load_plugin, plugin_names
from hardneg.runtime import Progress
from hardneg.store import replace_text

if TYPE_CHECKING:
    from hardneg.datasets.documents import DocumentFolder
    from hardneg.encoders.open.resolved import ResolvedModel

WITHOUT_LABELS, WITH_LABELS = "from-documents", "star-static"
"""The shipped recipes."""
_JUDGED = {False: "demo", True: "judged"}
"""The presets of `from-documents`: measured by written queries, or by the judged ones."""
_STATIC = "packaged:wordllama"
_MOST_TOKENS = 512
"""Of a document, for a model whose costs grow faster than its texts."""
_TRAIN, _DEV, _TEST = "train", "dev", "test"
_WIDTH = 110
_QUERIES = ("queries.jsonl", "queries.tsv", "queries.txt", "queries.*", "topics.*")
_FEW = 50
"""Documents: fewer leave one of two splits with a tenth each empty in more than a hundredth of the cases."""
_FEW_PASSAGES = 200_000
"""So many judged documents are looked at for their ids."""
_READ = 8 << 20
"""Files of so many bytes together are read and cut, to count their passages and to find what cannot be read."""
_READ_FORMS = "queries are lines of id, tab and text in queries.tsv, judgements belong to a folder of BEIR's form"
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
            DataError: there is no such folder, nothing in it that can be read, or files of a form that are no
                collection.
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
        others = [path for path in [*named, *sorted(folder.glob("*qrels*"))] if path.is_file() and path not in files]
        plain = next((name for name in forms if "judged" in load_plugin("datasets", name).__dataclass_fields__), None)
        without = [path.name for path in (*files, *others)]
        options: dict[str, Any] = {"judged": False} if plain else {"without": without}
        options = {name: value for name, value in {**options, "glob": glob}.items() if value not in ([], None)}
        dataset = {"name": plain or DOCUMENTS, "source": os.fspath(folder), **options}
        left_out, few = [f"{path.name}: not read, {files[0].name} is" for path in files[1:]], False
        qrels = [folder / "qrels"] if (folder / "qrels").is_dir() else []
        left_out += [f"{path.name}: not read; {_READ_FORMS}" for path in (*others, *qrels)]
        loader, size = _configured(dataset), 0
        if not plain:
            opened: DocumentFolder = loader.load()
            few = len(opened.files) < _FEW and not any(path.suffix.lower() in ROWS for path in opened.files)
            if sum(path.stat().st_size for path in opened.files) <= _READ:
                size = sum(1 for _ in opened.documents())
                if not size:
                    raise DataError(f"{folder}: no text in {counted(len(opened.files), 'file')}; add documents")
                few = len({each.group for each in opened.groups("document")}) < _FEW
            left_out += opened.notes()
        size = size or loader.size_hint()
        texts = [each.text for each in read_query_file(files[0], {}, Counter())] if files else []
        if files and not texts:
            raise DataError(f"{files[0]}: no query in it; fill it in, or take it out of the folder")
        return cls(folder, dataset, size, {}, files[0] if files else None, texts, left_out, few)


def _configured(dataset: Mapping[str, Any]) -> Any:
    options = {name: value for name, value in dataset.items() if name != "name"}
    return configure("datasets", PluginSetting(dataset["name"], options))


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


@dataclass(frozen=True)
class Beginning:
    """A recipe for what a folder holds.

    model: where training begins.
    """

    contents: FolderContents
    model: str = _STATIC

    @classmethod
    def of(cls, folder: Path, glob: str | None = None, model: str | None = None) -> "Beginning":
        """Looks into a folder.

        Raises:
            DataError: nothing can be read there, or nothing can be measured by its judgements.
            UsageError: a glob for a form whose files have names of their own.
        """
        contents = FolderContents.of(folder, glob)
        if contents.judged and not any(contents.judged.get(split) for split in (_DEV, _TEST)):
            splits = _counts(contents.judged)
            reason = f"queries with a relevant document: {splits}, and none of test or dev to measure by"
            advice = "move some of the queries there" if any(contents.judged.values()) else "mend the judgements"
            raise DataError("; ".join([f"{contents.folder}: {reason}", *contents.left_out, advice]))
        return cls(contents, model or _STATIC)

    @property
    def labelled(self) -> bool:
        """Whether there are judgements to train with."""
        return bool(self.contents.judged.get(_TRAIN))

    @property
    def measurable(self) -> bool:
        """Whether there are dev queries to choose negatives by."""
        return self.labelled and bool(self.contents.judged.get(_DEV) and self.contents.judged.get(_TEST))

    @property
    def name(self) -> str:
        """That of the folder, for files and titles."""
        return self.contents.folder.resolve().name or "start"

    def sentences(self) -> Iterator[str]:
        """What there is, and what the recipe does."""
        contents, judged, own = self.contents, self.contents.judged, len(self.contents.own_queries)
        seen = f"{contents.folder}: about {counted(contents.documents, 'passage')}, read as {contents.dataset['name']}"
        if judged:
            yield f"{seen}; queries with judgements: {_counts(judged)}"
        else:
            queries = f"{counted(own, 'query')} in {contents.queries.name}" if contents.queries else "no queries"
            yield f"{seen}; {queries}{', and' if own else ' and'} no judgements"
        yield from contents.left_out
        if self.labelled:
            yield f"recipe {WITH_LABELS}: the model learns from the judged queries, beside in-batch negatives alone"
            chosen = "; `hardneg recommend` chooses others on the dev queries" if self.measurable else ""
            yield f"which negatives: the first 10 of each query{chosen}"
        else:
            yield f"recipe {WITHOUT_LABELS}: queries are written from the passages, and the model learns from them"
            if contents.few:
                yield "of so few documents each passage alone is put into train, dev or test: `split_by: passage`"
            if contents.documents < _FEW:
                passages = counted(contents.documents, "passage")
                yield f"of {passages} a split may get no query, and the run then ends: add documents"
            if judged:
                yield "the judged queries are used to measure alone"
            elif own:
                yield "the own queries train and measure nothing, as nobody judged them: they are searched in the end"
            if not judged:
                yield "it is measured by written queries, which are not those that people ask"
        yield f"model {self.model}: {self._read[1]}"
        if self._lexical:
            yield f"BM25 is left out: {self._lexical}"

    @cached_property
    def _resolved(self) -> "ResolvedModel":
        from hardneg.encoders.open.resolved import resolve

        return resolve(self.model)

    @property
    def _read(self) -> tuple[int | None, str]:
        """The most tokens to read of a document, None where the model decides, and the same in words."""
        if getattr(self._resolved.known_family, "tables", False):
            return None, "a static table, which reads documents to their end, as BM25 does"
        known = self._resolved.known
        most = min(known.document_length, _MOST_TOKENS) if known else None
        part = f"the first {most} tokens" if most else "as much as the model can"
        return most, f"reads {part} of a document, where BM25 reads all of it"

    @property
    def _lexical(self) -> str:
        """Why there is no row of BM25; empty where there is one."""
        return recipes.absent("lucene")

    @property
    def tree(self) -> dict[str, Any]:
        """The plain stages of the shipped recipe, changed to fit the folder and the model."""
        contents, judged = self.contents, bool(self.contents.judged)
        shipped = (
            recipes.recipe_tree(WITH_LABELS, "demo")
            if self.labelled
            else recipes.recipe_tree(WITHOUT_LABELS, _JUDGED[judged])
        )
        stages: dict[str, Any] = shipped["stages"]
        known, tested = self._resolved.known, _DEV if judged and not contents.judged.get(_TEST) else _TEST
        for stage in stages.values():
            if stage["stage"] == "train":
                stage["options"]["max_steps"] = 200
                if known and known.similarity == "dot":
                    stage["loss"]["temperature"] = 1.0
            elif stage["stage"] in ("search", "evaluate") and tested != _TEST:
                stage.setdefault("split", tested)
        if contents.few:
            stages["written"]["split_by"] = "passage"
        if self.labelled:
            stages["static-negatives"]["miner"] = {"name": TOPK, "depth": 10}
        if contents.queries:
            own = {"stage": "search", "index": "documents-index", "dataset": "dataset", "depth": 100}
            stages["own-queries"] = {**own, "queries": str(contents.queries)}
        if self._lexical:
            for name in ("bm25-index", BM25):
                del stages[name]
            del stages["scores"]["runs"]["BM25"]
            stages["scores"]["baselines"] = ["as shipped"]
        model = {"name": self.model, **({"document_length": self._read[0]} if self._read[0] else {})}
        top = {"title": self.name, "dataset": dict(contents.dataset), "model": model}
        return {**top, "stages": stages, "outputs": shipped["outputs"]}

    def recipe(self, path: Path) -> str:
        """The text of the recipe to write at a path."""
        head = [line for sentence in self.sentences() for line in wrap(sentence, _WIDTH)]
        command = f"  hardneg recipe run {quote(str(path))}".splitlines()
        comments = [f"# {line}\n" for line in (*head, "", *command)]
        return "".join(line.replace("# \n", "#\n") for line in comments) + recipes.as_yaml(self.tree)

    def paths(self, output: str | Path | None, run: bool) -> tuple[Path, Path]:
        """The recipe to write, and its run folder.

        Raises:
            UsageError: what is written would be in the folder, and be read with its documents next time.
        """
        recipe, folder = Path(output or f"{self.name}.yaml"), self.contents.folder.resolve()
        results = recipes.default_folder(recipe.stem, "")
        for path in (recipe, results) if run else (recipe,):
            if folder in path.resolve().parents:
                reason = f"in {folder}, where it would be read as a document next time; call it from another folder"
                raise UsageError(f"{path}: {reason}, or name {{output}}", "output")
        return recipe, results


def _counts(judged: Mapping[str, int]) -> str:
    return ", ".join(f"{split} {count:,}" for split, count in judged.items())


def takes(rows: "Sequence[recipes.Estimate]") -> str:
    """The steps that the store lacks and what they go through, in words."""
    ahead = [row for row in rows if not row.cached]
    most = max(ahead, key=lambda row: row.items, default=None)
    through = f", up to {most.items:,} {most.unit}" if most else ""
    return f"{len(ahead)} of {counted(len(rows), 'step')} to run{through}"


@dataclass(frozen=True)
class Started:
    """A recipe that was written for a folder. run: its results, where it has run."""

    recipe: Path
    contents: FolderContents
    sentences: tuple[str, ...]
    run: RunFolder | None = None

    def __repr__(self) -> str:
        return "\n".join([f"Started({str(self.recipe)!r})", *self.sentences])


def start(
    folder: str | Path,
    output: str | Path | None = None,
    *,
    model: Model | None = None,
    glob: str | None = None,
    run: bool = False,
    overwrite: bool = False,
    store: str | Path | None = None,
    device: str | None = None,
    progress: bool | Progress = False,
) -> Started:
    """Writes a recipe that fits what a folder holds: documents alone, queries beside them, or judgements too.

    Args:
        folder: documents of any form that `documents` reads, or a collection with or without judgements.
        output: the recipe to write; by default NAME.yaml in the working folder, NAME being the folder's.
        model: where training begins, as for `train`; by default a static table, `packaged:wordllama`.
        glob: which documents are read, such as `guide/**/*.md`; by default all.
        run: run it too, into runs/NAME.
        overwrite: replace a file of that name that is not this function's.
        store: the artifact store, by default the usual one.
        device: such as cpu or cuda; by default the best available.
        progress: whether to show bars, or what shows them.

    Raises:
        DataError: nothing in the folder can be read, or nothing can be measured by its judgements.
        UsageError: the recipe would be written into the folder, or over another file; or a glob for a collection whose
            files have names of their own.
    """
    session = Session.of({"store": store, "device": device, "progress": progress})
    named = None if model is None else named_model(model, session.store)
    beginning = Beginning.of(file_path(folder, "folder"), glob, named)
    recipe, results = beginning.paths(output, run)
    with writing("start", [recipe], overwrite, reads=[beginning.contents.folder]) as (path,):
        replace_text(path, beginning.recipe(path))
    chosen, where = ChosenRecipe(str(recipe)), {"store": store, "device": device, "progress": progress}
    rows = chosen.plan(store=store).rows
    done = chosen.run(results, **where) if run else None  # type: ignore[arg-type]
    return Started(recipe, beginning.contents, (*beginning.sentences(), takes(rows)), done)
