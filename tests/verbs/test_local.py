"""The built-in engine."""

from hardneg.testing import EngineTests
from hardneg.verbs.shared.local_engine import Local


class TestLocal(EngineTests):
    plugin = Local()
