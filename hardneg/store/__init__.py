"""The store: artifacts and their keys, files written whole or not at all, and the artifacts that results use."""

from hardneg.store.artifacts import *
from hardneg.store.atomic_write import *
from hardneg.store.choices import *
from hardneg.store.identity import *
from hardneg.store.replaced_files import *
