"""Pairwise errors of a recipe's indexes and runs, with all that the collection knows of its documents."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardneg.analysis.index_errors import Relevant, corpus_pass, errors_in_index
from hardneg.analysis.pairwise_errors import PairwiseErrors
from hardneg.analysis.run_errors import errors_in_run
from hardneg.data.collection import StoredCollection
from hardneg.data.qrels import positives
from hardneg.data.runs import stream_run
from hardneg.indexes.exact import ExactOptions
from hardneg.layout import RUN
from hardneg.models.inference import EncodeOptions
from hardneg.protocols import DenseSearcher
from hardneg.stages.analysis_spec import AnalyzeSpec
from hardneg.stages.context import ArtifactInput, StageContext
from hardneg.stages.inputs import open_collection, open_encoder, open_searcher


def pairwise_errors(work: StageContext[Any]) -> dict[str, PairwiseErrors]:
    """The errors by label: total and top-K ones of an index, top-K ones of a run.

    Copies of positives, and what another split or a lower grade calls relevant, are neither positives nor negatives.
    """
    collection = open_collection(work.inputs["dataset"])
    relevant = relevant_documents(collection, work.spec)
    found = {label: _of_index(work, label, collection, relevant) for label in work.spec.indexes}
    return found | {
        label: _of_run(work, source, collection, relevant) for label, source in work.inputs_of("runs").items()
    }


def relevant_documents(collection: StoredCollection, spec: AnalyzeSpec) -> Relevant:
    """The positives of the split, and what else is no negative."""
    chosen = positives(collection.qrels(spec.split), spec.relevance_level)
    everywhere = positives(collection.all_qrels())
    corpus = collection.corpus

    def aside(query_id: str, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        others = corpus.rows(everywhere.get(query_id, []))
        return corpus.copies(np.concatenate([rows, others[others >= 0]]))

    return Relevant(chosen, corpus.rows, aside)


def dense(work: StageContext[Any], label: str, collection: StoredCollection) -> DenseSearcher:
    """The opened index of a label; a recipe that names one of texts has been refused."""
    searcher = open_searcher(work.inputs_of("indexes")[label], collection, work.device, work.progress)
    assert isinstance(searcher, DenseSearcher)
    return searcher


def query_vectors(work: StageContext[Any], label: str, texts: list[str]) -> NDArray[np.float32]:
    """float32 [n, d] by the model of a label."""
    encoder = open_encoder(work.inputs_of("models")[label], work.device, "fp32")
    return encoder.encode(texts, "query", EncodeOptions(precision="fp32"), work.progress)


def _of_index(work: StageContext[Any], label: str, collection: StoredCollection, relevant: Relevant) -> PairwiseErrors:
    asked = [query for query in collection.queries(work.spec.split) if query.query_id in relevant.positives]
    vectors = query_vectors(work, label, [query.text for query in asked])
    corpus = corpus_pass(dense(work, label, collection), len(collection.corpus))
    ids = [query.query_id for query in asked]
    return errors_in_index(corpus, ids, vectors, relevant, work.spec.cut, str(ExactOptions(device=work.device).where))


def _of_run(
    work: StageContext[Any], source: ArtifactInput, collection: StoredCollection, relevant: Relevant
) -> PairwiseErrors:
    lists = ((query_id, ranked.doc_ids) for query_id, ranked in stream_run(source.folder / RUN))
    return errors_in_run(lists, relevant.positives, work.spec.cut, _aside_ids(collection, relevant))


def _aside_ids(collection: StoredCollection, relevant: Relevant) -> dict[str, list[str]]:
    assert relevant.aside is not None
    corpus = collection.corpus
    return {
        query_id: corpus.ids(relevant.aside(query_id, corpus.rows(doc_ids)))
        for query_id, doc_ids in relevant.positives.items()
    }
