"""The inputs of a running stage, opened: collection, queries, the encoder of a model, the searcher of an index."""

import shutil
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hardneg.encoders.open.resolved import learner, load_encoder
from hardneg.encoders.protocol import EncodeOptions, TextEncoder
from hardneg.encoders.spec import Precision, Side
from hardneg.formats.arrays import map_array
from hardneg.formats.collection import StoredCollection
from hardneg.formats.corpus import Corpus
from hardneg.formats.queries import Queries
from hardneg.indexes.candidate_scoring import pooled
from hardneg.protocols import Searcher
from hardneg.records import errors, layout
from hardneg.runtime import distributed, progress
from hardneg.stages.base import ArtifactInput, IndexSpec, StageContext, StageSpec
from hardneg.store import artifacts, atomic_write, blocks

if TYPE_CHECKING:
    from hardneg.encoders.encoder import Encoder


def open_encoder(source: ArtifactInput, device: str | None, precision: Precision | None = None) -> TextEncoder:
    """The recipe's own model, or the one a training stage made; precision: what it encodes in, None to train."""
    return load_encoder(source.model or source.folder / layout.MODEL_FOLDER, device, precision)


def open_prompted(
    context: StageContext[StageSpec], side: Side, prompt: str | None, precision: Precision | None
) -> TextEncoder:
    """The stage's model, with another prompt of a side where there is one.

    Raises:
        UsageError: its network does not run here, so that nobody can change its prompt.
    """
    from hardneg.encoders.encoder import Encoder

    encoder = open_encoder(context.inputs["model"], context.device, precision)
    if prompt is None:
        return encoder
    if not isinstance(encoder, Encoder):
        raise errors.UsageError(f"{context.name}.{side}_prompt: the model's prompts cannot be changed: leave it out")
    return encoder.prompted(side, prompt)


def open_learner(context: StageContext[StageSpec]) -> "Encoder":
    """The model that a stage trains further.

    Raises:
        ModelError: it cannot learn.
        UsageError: the stage's loss is made for scores of another similarity.
    """
    encoder = learner(open_encoder(context.inputs["model"], context.device))
    loss, own = type(context.plugins["loss"]), encoder.spec.similarity
    if (wanted := getattr(loss, "similarity", own)) != own:
        mismatch = f"{loss.__name__} is made for similarity {wanted}, and the model's is {own}"
        raise errors.UsageError(f"{context.name}: {mismatch}: say model.similarity: {wanted}, or take another loss")
    return encoder


def open_collection(source: ArtifactInput) -> StoredCollection:
    """The collection that the dataset stage stored."""
    return StoredCollection.open(source.folder)


def open_corpus(context: StageContext[StageSpec]) -> Corpus:
    """The corpus of the stage's dataset. Raises DataError where there is no document in it."""
    corpus = open_collection(context.inputs["dataset"]).corpus
    if not len(corpus):
        raise errors.DataError(f"{context.name}: the corpus has no documents")
    return corpus


def open_queries(context: StageContext[StageSpec], collection: StoredCollection, split: str) -> Queries:
    """The queries of a split. Raises DataError where there are none."""
    queries = collection.queries(split)
    if not len(queries):
        raise no_queries(context.name, split)
    return queries


def no_queries(name: str, split: str) -> errors.DataError:
    """The error of a stage whose split is empty."""
    return errors.DataError(f"{name}: split {split} has no queries; only those are read that its judgements name")


def queries_of(context: StageContext[StageSpec], collection: StoredCollection, split: str) -> Queries:
    """The queries of the input `run`: those that stand beside it, or those of a split."""
    return own_queries(context.inputs["run"]) or open_queries(context, collection, split)


def own_queries(source: ArtifactInput | None) -> Queries | None:
    """The queries that stand beside an artifact; None where it is of a split."""
    path = None if source is None else source.folder / layout.QUERIES
    return Queries.open(path) if path is not None and path.exists() else None


def pass_on(context: StageContext[StageSpec]) -> None:
    """Has the queries of the input `run`, if they are of a file, stand beside what is made of it."""
    if (path := context.inputs["run"].folder / layout.QUERIES).exists():
        atomic_write.link_file(path, context.folder / layout.QUERIES)


def open_searcher(
    source: ArtifactInput,
    collection: StoredCollection,
    device: str | None,
    progress: progress.Progress | None,
    few: bool = False,
    expected: int = 0,
) -> Searcher:
    """The searcher of an index, as the stage that made it opens it; it gives documents.

    An index of segments is no `DenseSearcher`: a document has no vector of its own there.

    few: a flat index is to be searched again and again with a hundred queries or less, as a training loop does; it then
    stays on a GPU that has room for it. expected: how many queries it is searched with in all.
    """
    from hardneg.indexes.exact import ExactOptions

    if not isinstance(source.spec, IndexSpec):
        raise errors.UsageError(f"{source.name} is no index")
    options = ExactOptions(device=device, expected=expected)
    searcher = source.spec.open_index(source, collection, options.for_few() if few else options, progress)
    return pooled(searcher, source.part("index"), collection.corpus.doc_ids)


def encoded_queries(
    context: StageContext[StageSpec], model: ArtifactInput, texts: Sequence[str], name: str
) -> NDArray[np.float32]:
    """float32 [Q, d], mapped from a file `name` in the scratch folder: Q texts as queries of a model.

    The first process encodes the blocks that a stopped run has not; the others wait.

    Raises:
        ModelError: the model makes something else of a text than one vector.
    """
    path = context.folder / artifacts.SCRATCH / f"{name}.npy"
    if distributed.world().first and not path.exists():
        encoder = open_encoder(model, context.device, "fp32")
        store, options = blocks.BlockStore(path.with_suffix("")), EncodeOptions(precision="fp32")
        windows = [range(len(texts))[start : start + options.window] for start in range(0, len(texts), options.window)]
        store.begin([*map(len, windows)])
        for number in sorted(set(range(len(windows))) - store.finished()):
            some = list(texts[windows[number].start : windows[number].stop])
            part = encoder.encode(some, "query", options, context.progress)
            if not isinstance(part, np.ndarray):
                problem = "makes more than one vector of a text: name one that makes one"
                raise errors.ModelError(f"{context.name}: model {encoder.spec.name!r} {problem}")
            store.write(number, blocks.BlockResult({"vectors": np.ascontiguousarray(part, "<f4")}))
        with atomic_write.replacing(path) as file:
            header = {"descr": "<f4", "fortran_order": False, "shape": (len(texts), encoder.dimension)}
            np.lib.format.write_array_header_1_0(file, header)
            file.writelines(store.read(number, "vectors")["vectors"].data for number in range(len(windows)))
        shutil.rmtree(store.folder)
    shape = distributed.from_first(np.load(path, mmap_mode="r").shape if distributed.world().first else None)
    vectors: NDArray[np.float32] = map_array(path, tuple(shape), np.float32)
    return vectors
