"""The function `start`, which writes a recipe for a folder of documents.

A dataset loader lists glob patterns in `known_by`; a folder with a matching file has the loader's format.
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
from hardneg.formats.source_files import read_query_file
from hardneg.formats.text_lines import no_folder
from hardneg.functions.arguments import Model, file_path
from hardneg.functions.recipes import ChosenRecipe, RunFolder
from hardneg.functions.results import writing
from hardneg.functions.session import Session, named_model
from hardneg.records import BM25, DOCUMENTS, TOPK, Collection, DataError, PluginSetting, UsageError, counted
from hardneg.registry import configure, load_plugin, plugin_names
from hardneg.runtime import Progress
from hardneg.store import replace_text

if TYPE_CHECKING:
    from hardneg.datasets.documents import DocumentFolder
    from hardneg.encoders.open.resolved import ResolvedModel

WITHOUT_LABELS, WITH_LABELS = "from-documents", "star-static"
_STATIC = "packaged:wordllama"
_MOST_TOKENS = 512
"""Maximum document length, in tokens, for models with a cost that grows faster than the length."""
_TRAIN, _DEV, _TEST = "train", "dev", "test"
_WIDTH = 110
_QUERIES = ("queries.jsonl", "queries.tsv", "queries.txt", "queries.*", "topics.*")
_FEW = 50
"""Minimum number of documents; with fewer, a 10% split is empty in more than 1% of cases."""
_FEW_PASSAGES = 200_000
"""Maximum number of documents for comparing their ids with the judgements."""
_READ = 8 << 20
"""Maximum size, in bytes, of files that are read to count passages and find unreadable files."""
_READ_FORMS = "queries belong in queries.tsv (id, tab, text), judgements in a folder in BEIR format"
_SUFFIXES = frozenset({".jsonl", ".tsv", ".txt", ".trec", ".gz"})


@dataclass(frozen=True)
class FolderContents:
    """What `start` found in a folder.

    dataset: the dataset setting for a recipe. documents: the estimated number of passages. judged: number of queries
    with a relevant document, by split. queries: a file of unjudged queries. own_queries: the texts in that file.
    left_out: notes on skipped files and items. few: whether there are too few documents to split by document.
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
        """Inspect a folder; count its judged queries and estimate its passages. glob: files to read; None for all.

        Raises:
            DataError: the folder is missing, or contains nothing readable or an incomplete collection.
            UsageError: a glob is given for a format with fixed file names.
        """
        folder = folder.expanduser().absolute()
        if not folder.is_dir():
            raise no_folder(folder)
        marks = {name: getattr(load_plugin("datasets", name), "known_by", ()) for name in plugin_names("datasets")}
        forms = [name for name, patterns in marks.items() if any(any(folder.glob(each)) for each in patterns)]
        if glob and forms:
            raise UsageError(f"{folder}: read as {forms[0]}, which has fixed file names; remove {{glob}}", "glob")
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
        left_out, few = [f"{path.name}: not read; queries are from {files[0].name}" for path in files[1:]], False
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
            raise DataError(f"{files[0]}: contains no queries; add some, or remove the file")
        return cls(folder, dataset, size, {}, files[0] if files else None, texts, left_out, few)


def _configured(dataset: Mapping[str, Any]) -> Any:
    options = {name: value for name, value in dataset.items() if name != "name"}
    return configure("datasets", PluginSetting(dataset["name"], options))


def _first_judged(folder: Path, forms: Sequence[str]) -> FolderContents | None:
    """The content in the first format that is readable with judgements; None without judgements.

    Raises:
        DataError: judgement files in no readable format.
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
            judgements, query_ids = list(collection.qrels(split)), {each.query_id for each in collection.queries(split)}
            relevant = [each for each in judgements if each.relevance > 0]
            lost = [each for each in judgements if doc_ids is not None and each.doc_id not in doc_ids]
            if unknown := sum(each.query_id in query_ids for each in lost):
                what = "of documents not in the corpus, used in evaluation only"
                left_out.append(f"{split}: {counted(unknown, 'judgement')} {what}")
            known = {each.query_id for each in relevant if doc_ids is None or each.doc_id in doc_ids} & query_ids
            judged[split] = len(known)
            if lacking := len({each.query_id for each in relevant}) - len(known):
                missing = f"the query or its documents are missing from {folder}"
                left_out.append(f"{split}: judgements of {counted(lacking, 'query')} skipped, because {missing}")
            if shared := known & trained:  # train is the first split
                also = counted(len(shared), "query is", "queries are")
                left_out.append(f"{split}: {also} also in train, so scores on it measure memorisation")
            trained |= known if split == "train" else set()
        return FolderContents(folder, dataset, loader.size_hint(), judged, left_out=left_out)
    if errors and any(folder.glob("*qrels*")):
        raise errors[0]
    return None


@dataclass(frozen=True)
class Beginning:
    """The recipe to write for a folder. model: the start model."""

    contents: FolderContents
    model: str = _STATIC

    @classmethod
    def of(cls, folder: Path, glob: str | None = None, model: str | None = None) -> "Beginning":
        """Inspect a folder to plan its recipe; model: the start model, by default static word vectors.

        Raises:
            DataError: the folder has nothing readable, or no judged queries to evaluate on.
            UsageError: a glob is given for a format with fixed file names.
        """
        contents = FolderContents.of(folder, glob)
        if contents.judged and not any(contents.judged.get(split) for split in (_DEV, _TEST)):
            splits = _counts(contents.judged)
            reason = f"neither test nor dev has a query with a relevant document (such queries: {splits})"
            advice = "move some queries to test or dev" if any(contents.judged.values()) else "fix the judgements"
            raise DataError("; ".join([f"{contents.folder}: {reason}", *contents.left_out, advice]))
        return cls(contents, model or _STATIC)

    @property
    def labelled(self) -> bool:
        """Whether split train has judged queries to train on."""
        return bool(self.contents.judged.get(_TRAIN))

    @property
    def measurable(self) -> bool:
        """Whether train, dev and test all have judged queries; dev is for choosing negatives."""
        return self.labelled and bool(self.contents.judged.get(_DEV) and self.contents.judged.get(_TEST))

    @property
    def name(self) -> str:
        """The folder's name, for files and titles."""
        return self.contents.folder.resolve().name or "start"

    def sentences(self) -> Iterator[str]:
        """Yield lines that describe the content and the recipe."""
        contents, judged, own = self.contents, self.contents.judged, len(self.contents.own_queries)
        seen = f"{contents.folder}: about {counted(contents.documents, 'passage')}, read as {contents.dataset['name']}"
        if judged:
            yield f"{seen}; queries with judgements: {_counts(judged)}"
        else:
            queries = f"{counted(own, 'query')} in {contents.queries.name}" if contents.queries else "no queries"
            yield f"{seen}; {queries}{', and' if own else ' and'} no judgements"
        yield from contents.left_out
        if self.labelled:
            yield f"recipe {WITH_LABELS}: trains on the judged queries and compares with in-batch negatives alone"
            chosen = "; `hardneg recommend` tests others on the dev queries" if self.measurable else ""
            yield f"negatives: the top 10 of each query{chosen}"
        else:
            yield f"recipe {WITHOUT_LABELS}: writes queries from the passages and trains on them"
            if contents.few:
                yield "few documents: passages, not documents, are split into train, dev and test (`split_by: passage`)"
            if contents.documents < _FEW:
                passages = counted(contents.documents, "passage")
                yield f"only {passages}: a split may get no queries, and the run then fails; add documents"
            if judged:
                yield "the judged queries are used only for evaluation"
            elif own:
                yield "your queries have no judgements, so they are only searched, at the end"
            if not judged:
                yield "scores are measured on generated queries, which differ from what users ask"
        yield f"model {self.model}: {self._read[1]}"
        if lacking := recipes.absent("lucene"):
            yield f"no BM25 baseline: {lacking}"

    @cached_property
    def _resolved(self) -> "ResolvedModel":
        from hardneg.encoders.open.resolved import resolve

        return resolve(self.model)

    @property
    def _read(self) -> tuple[int | None, str]:
        """The document length in tokens (None for the model's own) and its description."""
        if getattr(self._resolved.known_family, "tables", False):
            return None, "static word vectors, which read whole documents, like BM25"
        known = self._resolved.known
        most = min(known.document_length, _MOST_TOKENS) if known else None
        part = f"the first {most} tokens" if most else "as much as the model can"
        return most, f"reads {part} of each document; BM25 reads all of it"

    @property
    def tree(self) -> dict[str, Any]:
        """The shipped recipe as nested dicts, adapted to the folder and the model."""
        contents, judged = self.contents, bool(self.contents.judged)
        shipped = (
            recipes.recipe_tree(WITH_LABELS, "demo")
            if self.labelled
            else recipes.recipe_tree(WITHOUT_LABELS, "judged" if judged else "demo")
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
        if recipes.absent("lucene"):
            for name in ("bm25-index", BM25):
                del stages[name]
            del stages["scores"]["runs"]["BM25"]
            stages["scores"]["baselines"] = ["as shipped"]
        model = {"name": self.model, **({"document_length": self._read[0]} if self._read[0] else {})}
        top = {"title": self.name, "dataset": dict(contents.dataset), "model": model}
        return {**top, "stages": stages, "outputs": shipped["outputs"]}

    def recipe(self, path: Path) -> str:
        """Return the recipe as YAML; its comments describe the folder and give the command that runs it from `path`."""
        head = [line for sentence in self.sentences() for line in wrap(sentence, _WIDTH)]
        command = f"  hardneg recipe run {quote(str(path))}".splitlines()
        comments = [f"# {line}\n" for line in (*head, "", *command)]
        return "".join(line.replace("# \n", "#\n") for line in comments) + recipes.as_yaml(self.tree)

    def paths(self, output: str | Path | None, run: bool) -> tuple[Path, Path]:
        """Return the paths of the recipe and its run folder. run: whether to check the path of the run folder too.

        Raises UsageError if a path is inside the folder of documents.
        """
        recipe, folder = Path(output or f"{self.name}.yaml"), self.contents.folder.resolve()
        results = recipes.default_folder(recipe.stem, "")
        for path in (recipe, results) if run else (recipe,):
            if folder in path.resolve().parents:
                reason = f"is in {folder}, so it would be read as a document next time"
                raise UsageError(f"{path}: {reason}; run this from another folder, or give {{output}}", "output")
        return recipe, results


def _counts(judged: Mapping[str, int]) -> str:
    return ", ".join(f"{split} {count:,}" for split, count in judged.items())


def takes(rows: "Sequence[recipes.Estimate]") -> str:
    """Return a text with the number of steps to run and the largest number of items in one step."""
    ahead = [row for row in rows if not row.cached]
    most = max(ahead, key=lambda row: row.items, default=None)
    through = f", up to {most.items:,} {most.unit}" if most else ""
    return f"{len(ahead)} of {counted(len(rows), 'step')} to run{through}"


@dataclass(frozen=True)
class Started:
    """A recipe written for a folder. sentences: what was found and planned. run: the results, if it has been run."""

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
    """Write a recipe for a folder of documents, optionally with queries and judgements.

    Args:
        folder: documents that the dataset `documents` can read, or a collection with or without judgements.
        output: the recipe file to write; by default NAME.yaml in the working folder, named after the folder.
        model: the start model, as for `train`; by default static word vectors, `packaged:wordllama`.
        glob: documents to read, such as `guide/**/*.md`; by default, all.
        run: whether to also run the recipe; results go to runs/NAME.
        overwrite: whether to replace a file that this function did not write.
        store: the artifact store; by default, $HARDNEG_STORE or ~/.cache/hardneg/store.
        device: the device, such as cpu or cuda; by default the best available.
        progress: whether to show progress bars, or an object that shows progress.

    Raises:
        DataError: the folder has nothing readable, or no judged queries to evaluate on.
        UsageError: the recipe would be inside the folder or replace another file, or a glob is given for a format with
            fixed file names.
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
