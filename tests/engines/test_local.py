"""The built-in engine."""

from hardneg.engines.local import Local
from hardneg.testing import EngineTests


class TestLocal(EngineTests):
    plugin = Local()
