"""Transformers of PyTerrier over what hardneg made."""

from hardneg_pyterrier.reranker import Reranker
from hardneg_pyterrier.retriever import Retriever
from hardneg_pyterrier.run import Run

__all__ = ["Reranker", "Retriever", "Run"]
