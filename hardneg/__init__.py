"""hardneg trains dense retrievers with hard negatives."""

__version__ = "0.1.0"
