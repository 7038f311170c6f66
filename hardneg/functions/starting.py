"""`hardneg.start`: from a folder to a recipe that fits what it holds, and to its results."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from shlex import quote
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from hardneg.functions.argument_values import file_path
from hardneg.functions.arguments import Model
from hardneg.functions.dataset_argument import named_model
from hardneg.functions.folder_contents import FolderContents
from hardneg.functions.recipes import ChosenRecipe, RunFolder
from hardneg.functions.results import writing
from hardneg.functions.session import Session
from hardneg.records import BM25, TOPK, DataError, UsageError, counted
from hardneg.runtime import Progress
from hardneg.store import replace_text

if TYPE_CHECKING:
    from hardneg.encoders.open.resolved import ResolvedModel
    from hardneg.recipes import Estimate

WITHOUT_LABELS, WITH_LABELS = "from-documents", "star-static"
"""The shipped recipes."""
_JUDGED = {False: "demo", True: "judged"}
"""The presets of `from-documents`: measured by written queries, or by the judged ones."""
_STATIC = "packaged:wordllama"
_MOST_TOKENS = 512
"""Of a document, for a model whose costs grow faster than its texts."""
_TRAIN, _DEV, _TEST = "train", "dev", "test"
_WIDTH = 110
_FEWEST = 50
"""Passages: of fewer a tenth may have none."""


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
            splits = ", ".join(f"{split} {count:,}" for split, count in contents.judged.items())
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
        contents = self.contents
        seen = f"{contents.folder}: about {counted(contents.documents, 'passage')}, read as {contents.dataset['name']}"
        judged = ", ".join(f"{split} {count:,}" for split, count in contents.judged.items())
        own = counted(len(contents.own_queries), "query")
        if judged:
            yield f"{seen}; queries with judgements: {judged}"
        elif contents.queries:
            yield f"{seen}; {own} in {contents.queries.name}, and no judgements"
        else:
            yield f"{seen}; no queries and no judgements"
        yield from contents.left_out
        if self.labelled:
            yield f"recipe {WITH_LABELS}: the model learns from the judged queries, beside in-batch negatives alone"
            chosen = "; `hardneg recommend` chooses others on the dev queries" if self.measurable else ""
            yield f"which negatives: the first 10 of each query{chosen}"
        else:
            yield from self._written_sentences()
        yield f"model {self.model}: {self._read[1]}"
        if self._lexical:
            yield f"BM25 is left out: {self._lexical}"

    def _written_sentences(self) -> Iterator[str]:
        yield f"recipe {WITHOUT_LABELS}: queries are written from the passages, and the model learns from them"
        if self.contents.few:
            yield "of so few documents each passage alone is put into train, dev or test: `split_by: passage`"
        if self.contents.documents < _FEWEST:
            passages = counted(self.contents.documents, "passage")
            yield f"of {passages} a split may get no query, and the run then ends: add documents"
        if self.contents.judged:
            yield "the judged queries are used to measure alone"
        elif self.contents.own_queries:
            yield "the own queries train and measure nothing, as nobody has judged them: they are searched in the end"
        if not self.contents.judged:
            yield "it is measured by written queries, which are not those that people ask"

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
        from hardneg.recipes import absent

        return absent("lucene")

    @property
    def tree(self) -> dict[str, Any]:
        """The plain stages of the shipped recipe, changed to fit the folder and the model."""
        from hardneg.recipes import recipe_tree

        contents, judged = self.contents, bool(self.contents.judged)
        shipped = recipe_tree(WITH_LABELS, "demo") if self.labelled else recipe_tree(WITHOUT_LABELS, _JUDGED[judged])
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
        from hardneg.recipes import as_yaml

        head = [line for sentence in self.sentences() for line in wrap(sentence, _WIDTH)]
        command = f"  hardneg recipe run {quote(str(path))}".splitlines()
        comments = [f"# {line}\n" for line in (*head, "", *command)]
        return "".join(line.replace("# \n", "#\n") for line in comments) + as_yaml(self.tree)

    def paths(self, output: str | Path | None, run: bool) -> tuple[Path, Path]:
        """The recipe to write, and its run folder.

        Raises:
            UsageError: what is written would be in the folder, and be read with its documents next time.
        """
        from hardneg.recipes import default_folder

        recipe, folder = Path(output or f"{self.name}.yaml"), self.contents.folder.resolve()
        results = default_folder(recipe.stem, "")
        for path in (recipe, results) if run else (recipe,):
            if folder in path.resolve().parents:
                reason = f"in {folder}, where it would be read as a document next time; call it from another folder"
                raise UsageError(f"{path}: {reason}, or name {{output}}", "output")
        return recipe, results


def takes(rows: "Sequence[Estimate]") -> str:
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
    progress: "bool | Progress" = False,
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
