"""The store: artifacts and their keys, atomic writes, and records of the outputs that use artifacts."""

from hardneg.store.artifacts import *
from hardneg.store.content import *
from hardneg.store.outputs import *
