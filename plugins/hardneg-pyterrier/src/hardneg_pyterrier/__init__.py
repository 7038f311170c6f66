"""Transformers of PyTerrier over what hardneg made."""

from hardneg_pyterrier.transformers import Reranker, Retriever, Run

__all__ = ["Reranker", "Retriever", "Run"]
