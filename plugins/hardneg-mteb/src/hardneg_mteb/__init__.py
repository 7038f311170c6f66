"""hardneg models on mteb's tasks: a model for `mteb.evaluate` that uses hardneg's encoding, indexes and search."""

from hardneg_mteb.model import TaskSearcher as TaskSearcher, mteb_model as mteb_model
