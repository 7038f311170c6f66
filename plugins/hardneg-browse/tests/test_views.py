"""What each page opens with: few negatives at once, positives beside them."""

import re

import pytest
from hardneg_browse.browsed import opened
from hardneg_browse.serving import listening
from hardneg_browse.sources import BrowseSources, Marks
from material import negatives
from run_lists import falling
from test_server import ask

from hardneg.formats.collection import write_collection
from hardneg.formats.negatives import recorded, write_negatives
from hardneg.formats.runs import write_run
from hardneg.records import Document, Judgement, Query
from hardneg.runtime import Silent

NAMES = [f"pandas.core.number_{i}" for i in range(45)]
SPLITS = {"train": {"q1": "old river"}, "test": {"kwarg_error": "raise a TypeError"}}


class TwoSplits:
    def documents(self):
        texts = {"p1": "the old river was seen again today", **{name: f"passage {name}" for name in NAMES}}
        return (Document(doc_id, text) for doc_id, text in texts.items())

    def splits(self):
        return list(SPLITS)

    def queries(self, split):
        return (Query(*pair) for pair in SPLITS[split].items())

    def qrels(self, split):
        return (Judgement(query_id, "p1", 1) for query_id in SPLITS[split])

    def notes(self):
        return []


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("views")
    write_collection(TwoSplits(), folder / "collection", Silent())
    write_negatives(folder / "mined.arrow", recorded(negatives({"q1": NAMES}), {}))
    for label in ("dense", "bm25"):
        write_run(folder / f"{label}.trec", falling({"q1": [*NAMES[:3], "p1"]}).items())
    runs = {label: folder / f"{label}.trec" for label in ("dense", "bm25")}
    parts = {"negatives": {"mined": folder / "mined.arrow"}, "runs": runs, "dataset": folder / "collection"}
    sources = BrowseSources("views", folder / "marks.qrels", **parts)
    with opened(sources, Silent()) as found, listening(found, Marks(sources.marks)) as made, made.beside():
        yield made


def test_twenty_negatives_are_shown_and_the_others_open_in_twenties(server):
    text = ask(server, "/query?q=q1")[2]
    before, *more = re.split(r'<details class="more"><summary>', text)
    assert before.count('class="card negative') == 20
    assert [part.partition("</summary>")[0] for part in more] == ["Negatives 21 to 40", "Negatives 41 to 45"]
    assert [part.count('class="card negative') for part in more] == [20, 5]
    assert 'id="negative-45"' in more[1] and '<ol class="cards" start="41">' in more[1]


def test_a_suspicious_negative_has_its_positive_beside_it(server):
    for _ in range(200):
        text = ask(server, "/suspicious")[2]
        if "were examined" in text:
            break
    assert "the old river was seen again today" in text and text.index("Positive <bdi>p1") < text.index("ranks it at 1")
