"""What the built-in writers take from a passage, and what they leave."""

import pytest

from hardneg.datasets.passage_writers import Crop, FirstSentence, Heading, InverseCloze
from hardneg.records import Document, PluginError, Written
from hardneg.testing import WriterTests

THREE = Document("d", "One two three four. Five six seven eight. Short one.", "Head of it")


def written(writer, document=THREE, count=1, seed=3):
    [one] = writer.write([document], count=count, seed=seed)
    return one


def test_a_sentence_is_taken_out_of_its_passage():
    for seed in range(20):
        queries, document = written(InverseCloze(kept=0), seed=seed)
        left = {
            "One two three four.": "Five six seven eight. Short one.",
            "Five six seven eight.": "One two three four. Short one.",
        }
        assert document == THREE._replace(text=left[queries[0]])
    assert len({written(InverseCloze(), seed=seed).queries[0] for seed in range(20)}) == 2


def test_a_sentence_stays_in_a_tenth_of_the_cases():
    documents = [THREE._replace(doc_id=f"d{number}") for number in range(2000)]
    kept = sum(one.document.text == THREE.text for one in InverseCloze().write(documents, count=1, seed=1))
    assert 160 < kept < 240  # 200 and three standard deviations of 13
    assert written(InverseCloze(kept=1)).document == THREE


def test_several_sentences_are_taken_at_once_and_one_is_left():
    queries, document = written(InverseCloze(kept=0), count=5)
    assert sorted(queries) == ["Five six seven eight.", "One two three four."]
    assert document.text == "Short one."
    alone = Document("d", "There is only one sentence here.")
    assert written(InverseCloze(), alone) == ([], alone)


def test_scripts_without_blanks_have_words_too():
    text = "東京は日本の首都である。人口は約千四百万人である。短い。"
    queries, document = written(InverseCloze(kept=0), Document("d", text), count=5)
    assert sorted(queries) == ["人口は約千四百万人である。", "東京は日本の首都である。"] and document.text == "短い。"
    [query], cropped = written(Crop(words=4), Document("d", text))
    assert query in text and cropped.text in text and query != text
    assert written(Heading(), Document("d", text, "東京都"))[0] == ["東京都"]


def test_crops_are_stretches_of_both_lengths():
    words = [f"w{number}" for number in range(100)]
    document = Document("d", "  ".join(words))
    for seed in range(30):
        queries, changed = written(Crop(shortest=0.1, longest=0.3), document, count=2, seed=seed)
        for text in (*queries, changed.text):
            part = text.split()
            start = words.index(part[0])
            assert part == words[start : start + len(part)] and 10 <= len(part) <= 30
    assert written(Crop(words=101), document).queries == ()


def test_the_heading_is_taken_out_of_the_passage():
    queries, document = written(Heading(), count=3)
    assert (queries, document) == (["Head of it"], THREE._replace(title=""))
    for other in (THREE._replace(title="Word"), THREE._replace(text=" ")):
        assert written(Heading(), other) == ((), other)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: InverseCloze(kept=2), "kept must be between 0 and 1"),
        (lambda: InverseCloze(words=(5, 4)), "words must be two numbers"),
        (lambda: Crop(shortest=0.6), "shortest 0.6 and longest 0.5 break 0 < shortest <= longest <= 1"),
        (lambda: Crop(words=3), "words must be at least 4"),
    ],
)
def test_options_that_make_no_sense(make, message):
    with pytest.raises(PluginError, match=message):
        make()


METHOD = '''def push(self, item):
    """Put an item on top.  It is
    popped first.

    Details.
    """
    self.items.append(item)'''


def test_docstring_takes_the_first_sentence_and_leaves_code():
    documents = [Document("a.py:3", METHOD, "Stack.push"), Document("b", "def x(): pass"), Document("c", "One. Two.")]
    documents += [Document("d", '"""A module."""'), Document("e", 'def f():\n    """Short."""')]
    first, *others = FirstSentence().write(documents, count=2, seed=1)
    assert first == Written(
        ["Put an item on top."], Document("a.py:3", "def push(self, item):\n    self.items.append(item)", "Stack.push")
    )
    assert others == [Written((), document) for document in documents[1:]]
    (few,) = FirstSentence(words=(6, 9)).write(documents[:1], count=1, seed=1)
    assert few == Written((), documents[0])
    with pytest.raises(PluginError, match=r"words must be two numbers of at least 1, the smaller first, not \[4, 3\]"):
        FirstSentence(words=(4, 3))


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
