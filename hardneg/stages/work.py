"""Helpers for running stages: opened inputs, and work in blocks that are written to files and joined at the end."""

import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator

from hardneg.encoders import protocol, spec
from hardneg.encoders.open.resolved import learner, load_encoder
from hardneg.fields import Trait
from hardneg.formats import arrays, runs
from hardneg.formats.collection import Queries
from hardneg.indexes.candidate_scoring import pooled
from hardneg.protocols import Searcher
from hardneg.records import errors, layout, types, wording
from hardneg.runtime import distributed, progress
from hardneg.stages import ArtifactInput, Corpus, Facts, IndexSpec, StageContext, StageSpec, StoredCollection
from hardneg.store import SCRATCH, link_file, replacing
from hardneg.store.blocks import BlockResult, BlockStore, write_behind

Entry = tuple[str, types.RankedList]
Ranking = Iterator[tuple[Iterable[Entry], Callable[[], Counter[str]]]]
"""For each block, its ranked lists, and a function that returns its counts once the lists have been read."""
_LINES = "trec"


def _stage_or_seeds(value: Any) -> Any:
    if isinstance(value, str) and value:
        return value
    seeds = {str(seed): name for seed, name in value.items()} if isinstance(value, Mapping) else {}
    if len(seeds) > 1 and all(seed.isdecimal() and isinstance(name, str) and name for seed, name in seeds.items()):
        return {int(seed): name for seed, name in seeds.items()}
    raise ValueError("must be the name of a stage, or map at least two seeds to stages")


BySeed = Annotated[str | dict[int, str], BeforeValidator(_stage_or_seeds)]
"""The name of a stage, or the names of its copies by seed."""


def by_label(named: Mapping[str, str | Mapping[int, str]]) -> dict[str, tuple[str, int | None]]:
    """Return the label and seed (None without seeds) by input path, for a field that maps labels to `BySeed`."""
    paths = dict[str, tuple[str, int | None]]()
    for label, names in named.items():
        for seed in [None] if isinstance(names, str) else names:
            paths[label if seed is None else f"{label}.{seed}"] = label, seed
    return paths


def open_encoder(
    source: ArtifactInput, device: str | None, precision: spec.Precision | None = None
) -> protocol.TextEncoder:
    """Open the recipe's own model or a stage's model; precision: the precision for encoding, or None for training."""
    return load_encoder(source.model or source.folder / layout.MODEL_FOLDER, device, precision)


def open_prompted(
    context: StageContext[StageSpec], side: spec.Side, prompt: str | None, precision: spec.Precision | None
) -> protocol.TextEncoder:
    """Open the stage's model; `prompt`, if set, replaces its prompt for `side`. Raises UsageError if that is fixed."""
    encoder = open_encoder(context.inputs["model"], context.device, precision)
    if prompt is None:
        return encoder
    prompted: Callable[[spec.Side, str], protocol.TextEncoder] | None = getattr(encoder, "prompted", None)
    if prompted is None:
        raise errors.UsageError(f"{context.name}.{side}_prompt: the model's prompts cannot be changed; remove it")
    return prompted(side, prompt)


def open_learner(context: StageContext[StageSpec]) -> Any:
    """Open the input `model` as the `Encoder` that the stage trains.

    Raises:
        ModelError: the model cannot be trained.
        UsageError: the stage's loss needs another similarity.
    """
    encoder = learner(open_encoder(context.inputs["model"], context.device))
    loss, own = type(context.plugins["loss"]), encoder.spec.similarity
    if (wanted := getattr(loss, "similarity", own)) != own:
        mismatch = f"{loss.__name__} needs similarity {wanted}, but the model's is {own}"
        raise errors.UsageError(f"{context.name}: {mismatch}; set model.similarity: {wanted}, or choose another loss")
    return encoder


def open_collection(source: ArtifactInput) -> StoredCollection:
    """Open the collection that a stage such as `dataset` stored."""
    return StoredCollection.open(source.folder)


def open_corpus(context: StageContext[StageSpec]) -> Corpus:
    """Return the corpus of the stage's dataset. Raises DataError if it has no documents."""
    corpus = open_collection(context.inputs["dataset"]).corpus
    if not len(corpus):
        raise errors.DataError(f"{context.name}: the corpus has no documents")
    return corpus


def open_queries(context: StageContext[StageSpec], collection: StoredCollection, split: str) -> Queries:
    """Return the queries of a split. Raises DataError if there are none."""
    queries = collection.queries(split)
    if not len(queries):
        raise no_queries(context.name, split)
    return queries


def no_queries(name: str, split: str) -> errors.DataError:
    """Return the error for a split without queries."""
    return errors.DataError(f"{name}: split {split} has no queries; only queries with relevance judgements are read")


def queries_of(context: StageContext[StageSpec], collection: StoredCollection, split: str) -> Queries:
    """Return the queries stored with the input `run`, or else the split's. Raises DataError if there are none."""
    return own_queries(context.inputs["run"]) or open_queries(context, collection, split)


def own_queries(source: ArtifactInput | None) -> Queries | None:
    """Return the queries stored with an artifact; None if the artifact uses the queries of a split."""
    path = None if source is None else source.folder / layout.QUERIES
    return Queries.open(path) if path is not None and path.exists() else None


def pass_on(context: StageContext[StageSpec]) -> None:
    """Link the queries that are stored with the input `run`, if any, into the stage's folder."""
    if (path := context.inputs["run"].folder / layout.QUERIES).exists():
        link_file(path, context.folder / layout.QUERIES)


def open_searcher(
    source: ArtifactInput,
    collection: StoredCollection,
    device: str | None,
    progress: progress.Progress | None,
    few: bool = False,
    expected: int = 0,
) -> Searcher:
    """Open an index as a searcher that returns documents; for an index of segments, it is not a `DenseSearcher`.

    few: whether to keep a flat index on a GPU with enough memory, for repeated searches with up to a hundred queries,
    as in training. expected: the total number of queries. Raises UsageError if the artifact is not an index.
    """
    from hardneg.indexes.exact import ExactOptions

    if not isinstance(source.spec, IndexSpec):
        raise errors.UsageError(f"{source.name} is not an index")
    options = ExactOptions(device=device, expected=expected)
    searcher = source.spec.open_index(source, collection, options.for_few() if few else options, progress)
    return pooled(searcher, source.part("index"), collection.corpus.doc_ids)


def encoded_queries(
    context: StageContext[StageSpec], model: ArtifactInput, texts: Sequence[str], name: str
) -> NDArray[np.float32]:
    """Return the vectors of Q queries, float32 [Q, d], mapped from the file `name` in the scratch folder.

    The first process encodes missing blocks; the others wait. Raises ModelError unless texts have one vector each.
    """
    path = context.folder / SCRATCH / f"{name}.npy"
    if distributed.world().rank == 0 and not path.exists():
        encoder = open_encoder(model, context.device, "fp32")
        store, options = BlockStore(path.with_suffix("")), protocol.EncodeOptions(precision="fp32")
        windows = [range(len(texts))[start : start + options.window] for start in range(0, len(texts), options.window)]
        store.begin([*map(len, windows)])
        for number in sorted(set(range(len(windows))) - store.finished()):
            some = list(texts[windows[number].start : windows[number].stop])
            part = encoder.encode(some, "query", options, context.progress)
            if not isinstance(part, np.ndarray):
                problem = f"model {encoder.spec.name!r} has several vectors per text"
                raise errors.ModelError(f"{context.name}: {problem}; use a model that has one")
            store.write(number, BlockResult({"vectors": np.ascontiguousarray(part, "<f4")}))
        with replacing(path) as file:
            header = {"descr": "<f4", "fortran_order": False, "shape": (len(texts), encoder.dimension)}
            np.lib.format.write_array_header_1_0(file, header)
            file.writelines(store.read(number, "vectors")["vectors"].data for number in range(len(windows)))
        shutil.rmtree(store.folder)
    shape = distributed.from_first(np.load(path, mmap_mode="r").shape if distributed.world().rank == 0 else None)
    vectors: NDArray[np.float32] = arrays.map_array(path, tuple(shape), np.float32)
    return vectors


def pseudo_positives(negatives: ArtifactInput | None) -> Path | None:
    """Return the path of a file of negatives if it adds positives to the collection's own; otherwise None."""
    if negatives is None or not negatives.traits & {Trait.PSEUDO_POSITIVES, Trait.MORE_POSITIVES}:
        return None
    return negatives.folder / layout.NEGATIVES


def data_facts(context: StageContext[Any], corpus: Corpus, queries: int) -> dict[str, object]:
    """Return descriptions of the dataset and any teacher for a model card; queries: number of training queries."""
    written = ", generated from them" if Trait.WRITTEN_QUERIES in context.inputs["dataset"].traits else ""
    teacher = {"Teacher": f"the scores of {context.inputs['teacher'].name}"} if "teacher" in context.inputs else {}
    counts = f"{wording.counted(len(corpus), 'passage')}, {wording.counted(queries, 'training query')}"
    return {"Dataset": f"{counts}{written}", **teacher}


def query_blocks(queries: int, size: int) -> list[int]:
    """Return the block sizes for `queries` queries in blocks of `size`; the last block may be smaller."""
    return [min(size, queries - start) for start in range(0, queries, size)]


@dataclass(frozen=True)
class StageBlocks:
    """A stage's work in independent blocks, as opened in one process.

    sizes: items per block, the same in every process and after a restart. title: the progress title. unit: the plural
    noun for the items, such as `passages`. travels: whether other machines can compute blocks.
    """

    context: StageContext[Any]
    sizes: Sequence[int]
    title: str
    unit: str = "queries"
    travels: bool = True

    @cached_property
    def store(self) -> BlockStore:
        """The store of finished blocks. Raises ArtifactError if a stopped run used different block sizes."""
        store = BlockStore(self.context.folder / SCRATCH / "blocks")
        store.begin(self.sizes)
        return store

    def finished(self) -> set[int]:
        """Return the numbers of the blocks that are safely on disk."""
        return self.store.finished()

    def make(self, numbers: Sequence[int], task: progress.Task) -> Iterator[tuple[int, BlockResult]]:
        """Compute the given blocks in ascending order; yield each with its number, and advance `task` by its size."""
        raise NotImplementedError

    def write(self, number: int, block: BlockResult) -> None:
        """Write a finished block safely to disk."""
        self.store.write(number, block)

    def finish(self) -> Facts:
        """Join the finished blocks, and return the facts for the manifest."""
        raise NotImplementedError


@dataclass(frozen=True)
class RunBlocks(StageBlocks):
    """Base class of work that produces a run in blocks of queries; subclasses define `ranking` and `run_facts`."""

    def ranking(self, numbers: Sequence[int], task: progress.Task) -> Ranking:
        """Return each given block's ranked lists, and a function for its counts, in ascending order of the blocks."""
        raise NotImplementedError

    def run_facts(self) -> Facts:
        """Return the manifest facts about the whole run, which are added to the counts of its blocks."""
        raise NotImplementedError

    def make(self, numbers: Sequence[int], task: progress.Task) -> Iterator[tuple[int, BlockResult]]:
        for number, (entries, counted) in zip(numbers, self.ranking(numbers, task), strict=True):
            lines = runs.run_bytes(entries)
            yield number, BlockResult({_LINES: lines}, counted())
            task.advance(self.sizes[number])

    def finish(self) -> Facts:
        count = len(self.sizes)
        facts = {name: value for name, value in self.store.facts(count).items() if value}
        with replacing(self.context.folder / layout.RUN) as file:
            file.writelines(self.store.texts(_LINES, count))
        if "run" in self.context.inputs:
            pass_on(self.context)
        return {**facts, **self.run_facts()}


def make_blocks(context: StageContext[StageSpec]) -> Facts:
    """Compute a stage's missing blocks, join all blocks, and return the facts ({} except in the first process).

    Each of several processes computes a contiguous range of blocks, because adjacent blocks share what they read.
    """
    here = distributed.world()
    if here.rank == 0:
        context.keep_only(SCRATCH)
    distributed.barrier()
    blocks = context.spec.make(replace(context, first=here.rank == 0))
    if here.rank == 0:
        blocks.finished()  # records the sizes
    distributed.barrier()
    share, finished = range(len(blocks.sizes))[here.share(len(blocks.sizes))], blocks.finished()
    missing = [number for number in share if number not in finished]
    total, left = (sum(blocks.sizes[number] for number in numbers) for numbers in (share, missing))
    with context.progress.task(blocks.title, total, blocks.unit, done=total - left) as task:
        write_behind(blocks.make(missing, task) if missing else (), blocks.write)
    distributed.barrier()
    facts = blocks.finish() if here.rank == 0 else {}
    distributed.barrier()
    return facts
