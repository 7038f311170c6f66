"""PyTerrier transformers for hardneg's runs, indexes and rerankers."""

from hardneg_pyterrier.transformers import Reranker, Retriever, Run

__all__ = ["Reranker", "Retriever", "Run"]
