"""Artifacts opened for use: the encoder of a model, the searcher of an index."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from hardneg.data.collection import StoredCollection
from hardneg.data.corpus import Corpus
from hardneg.data.flat import FlatVectors
from hardneg.data.queries import Queries
from hardneg.errors import DataError, UsageError
from hardneg.indexes.exact import ExactOptions
from hardneg.indexes.flat import FlatSearcher
from hardneg.indexes.max_passage import pooled
from hardneg.indexes.product import PqSearcher
from hardneg.layout import INDEX_FOLDER, MODEL_FOLDER
from hardneg.models.encoder import Encoder
from hardneg.models.precision import Precision
from hardneg.progress import Progress
from hardneg.protocols import Searcher
from hardneg.stages.context import ArtifactInput, StageContext
from hardneg.stages.specs import EncodeSpec
from hardneg.stages.train_queries import TrainQueries

_RESIDENT = 512 << 20  # bytes


def open_encoder(source: ArtifactInput, device: str | None, precision: Precision | None = None) -> Encoder:
    """The recipe's own model, or the one a training stage made; precision: what it encodes in, None to train."""
    if source.model is not None:
        return Encoder.load(source.model, device, precision)
    return Encoder.open(source.folder / MODEL_FOLDER, device, precision)


def open_learner(work: StageContext[Any], device: str | None) -> Encoder:
    """The model that a stage trains further.

    Raises:
        UsageError: the stage's loss is made for scores of another similarity.
    """
    encoder, loss = open_encoder(work.inputs["model"], device), type(work.plugins["loss"])
    if (wanted := getattr(loss, "similarity", encoder.spec.similarity)) != encoder.spec.similarity:
        told = f"{loss.__name__} is made for similarity {wanted}, and the model's is {encoder.spec.similarity}"
        raise UsageError(f"{work.name}: {told}: say model.similarity: {wanted}, or take another loss")
    return encoder


def open_collection(source: ArtifactInput) -> StoredCollection:
    """The collection that the dataset stage stored."""
    return StoredCollection.open(source.folder)


def open_corpus(work: StageContext[Any]) -> Corpus:
    """The corpus of the work's dataset. Raises DataError where there is no document in it."""
    corpus = open_collection(work.inputs["dataset"]).corpus
    if not len(corpus):
        raise DataError(f"{work.name}: the corpus has no documents")
    return corpus


def open_queries(work: StageContext[Any], collection: StoredCollection) -> Queries:
    """The queries of the split that the work names. Raises DataError where there are none."""
    split = work.spec.split
    queries = collection.queries(split)
    if not len(queries):
        raise DataError(f"{work.name}: split {split} has no queries; only those are read that its judgements name")
    return queries


def index_folder(source: ArtifactInput) -> Path:
    """Where the files of an index are: a stage that trains centroids has them beside its model."""
    return source.folder / INDEX_FOLDER if isinstance(source.spec, TrainQueries) else source.folder


def open_searcher(
    source: ArtifactInput,
    collection: StoredCollection,
    device: str | None,
    progress: Progress | None,
    few: bool = False,
) -> Searcher:
    """The searcher of an index stage's backend, which gives documents; vectors that were encoded open as a flat index.

    An index of segments is no `DenseSearcher`: a document has no vector of its own there.

    few: a flat index is to be searched again and again with a hundred queries or less, as a training loop does; it then
    stays on a GPU that has room for it.
    """
    options = _for_few(ExactOptions(device=device)) if few else ExactOptions(device=device)
    searcher = _searcher(source, collection, options, progress)
    return pooled(searcher, index_folder(source), collection.corpus.doc_ids)


def _searcher(
    source: ArtifactInput, collection: StoredCollection, options: ExactOptions, progress: Progress | None
) -> Searcher:
    if isinstance(source.spec, EncodeSpec):
        return FlatSearcher(FlatVectors.open(source.folder), options, progress)
    if isinstance(source.spec, TrainQueries):
        return PqSearcher.open(index_folder(source))
    searcher: Searcher = source.plugins["backend"].open(source.folder, collection.corpus.rows)
    return replace(searcher, options=options, progress=progress) if isinstance(searcher, FlatSearcher) else searcher


def _for_few(options: ExactOptions) -> ExactOptions:
    """The index may take 512 MiB, or three quarters of a GPU's free memory; a larger one is read for each search."""
    free = torch.cuda.mem_get_info(options.where)[0] if options.where.type == "cuda" else 0
    return replace(options, engine="torch", resident=max(_RESIDENT, free // 4 * 3))
