"""Every built-in writer against the kit that authors of plugins use."""

from hardneg.datasets.passage_writers import Crop, FirstSentence, Heading, InverseCloze
from hardneg.records import Document
from hardneg.testing import WriterTests


class TestInverseCloze(WriterTests):
    plugin = InverseCloze()


class TestCrop(WriterTests):
    plugin = Crop()


class TestFirstSentence(WriterTests):
    plugin = FirstSentence()

    def documents(self):
        code = 'def {0}(a):\n    """Return the {0} of {1}. More."""\n    return a'
        pairs = [(first, second) for first in ("river", "harbor", "tower") for second in ("wood", "stone", "sand")]
        passages = [Document(f"d{number}", code.format(*pair)) for number, pair in enumerate(pairs)]
        return [*passages, Document("short", "word"), Document("empty", "")]


class TestHeading(WriterTests):
    plugin = Heading()
