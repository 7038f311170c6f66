"""Models of hardneg on mteb's tasks: a model for `mteb.evaluate`, over hardneg's own encoding, indexes and search."""

from hardneg_mteb.model import TaskSearcher as TaskSearcher, mteb_model as mteb_model
