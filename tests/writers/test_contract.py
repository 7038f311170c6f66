"""Every built-in writer against the kit that authors of plugins use."""

from hardneg.testing import WriterTests
from hardneg.writers.crop import Crop
from hardneg.writers.heading import Heading
from hardneg.writers.inverse_cloze import InverseCloze


class TestInverseCloze(WriterTests):
    plugin = InverseCloze()


class TestCrop(WriterTests):
    plugin = Crop()


class TestHeading(WriterTests):
    plugin = Heading()
