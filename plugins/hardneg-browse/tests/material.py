"""A small collection with texts that would do harm where they are not escaped, and what was mined from it."""

import numpy as np
from hardneg_browse.sources import BrowseSources

from hardneg.formats.collection import write_collection
from hardneg.formats.negatives import recorded, write_negatives
from hardneg.formats.runs import write_run
from hardneg.records import Document, Drops, Judgement, Negatives, Query, RankedList
from hardneg.runtime import Silent

SCRIPT = "<script>window.harmed = 1</script><img src=x onerror='window.harmed = 1'>"
QUERIES = {
    "q/1?a=b&c": "folic acid and kidneys",
    "q'2\"<b>": f"what does {SCRIPT} do </style></title> to kidneys",
    "q\u202e3": "right \u202eto left\u2066 \x07 bell",
    "שאלה": "מה זה חומצה פולית",
    "q5": "nothing was mined for this",
}
DOCUMENTS = {
    "p1": ("Folic acid", "folic acid is a vitamin that kidneys of rats need every day"),
    "copy": ("", "folic acid is a vitamin that kidneys of rats need every night"),
    "far": ("", "a page about trains"),
    "d/1&x=<i>": ("</title>" + SCRIPT, f"</style>{SCRIPT} \x00\x1b[31m kidneys"),
    "long": ("", "kidneys " * 131_072),
    "rtl\u202e": ("\u202etitle", "\u202eevil\u202c text חומצה"),
    "דג": ("", "חומצה פולית היא ויטמין"),
}


class SmallCollection:
    def documents(self):
        return (Document(doc_id, text, title) for doc_id, (title, text) in DOCUMENTS.items())

    def splits(self):
        return ["train"]

    def queries(self, split):
        return (Query(*pair) for pair in QUERIES.items())

    def qrels(self, split):
        return (Judgement(query_id, "p1", 1) for query_id in QUERIES)

    def notes(self):
        return []


MINED = {
    "q/1?a=b&c": ["copy", "far", "d/1&x=<i>"],
    "q'2\"<b>": ["d/1&x=<i>", "long", "rtl\u202e", "דג"],
    "q\u202e3": ["rtl\u202e", "long"],
    "שאלה": ["דג", "d/1&x=<i>"],
}
OTHER = {"q/1?a=b&c": ["far", "copy", "long"], "q'2\"<b>": ["d/1&x=<i>"]}
RUNS = {
    "dense": {"q/1?a=b&c": ["copy", "p1", "far"], "q'2\"<b>": ["d/1&x=<i>", "long", "rtl\u202e", "p1"]},
    "judge": {"q/1?a=b&c": ["copy", "far", "p1"], "q'2\"<b>": ["p1", "long"]},
}


def falling(doc_ids):
    """A list of these documents whose scores fall from 10 by 1."""
    return RankedList(doc_ids, np.arange(10, 10 - len(doc_ids), -1, dtype=np.float32))


def negatives(mined, dropped=()):
    for query_id, doc_ids in mined.items():
        count = len(dropped)
        ranks, kept = np.arange(1, count + 1, dtype=np.int32), np.arange(1, len(doc_ids) + 1, dtype=np.int32)
        scores = np.array([0.93, np.nan][:count], np.float32)
        drops = Drops(5, list(dropped), ranks, ["score", "positive"][:count], scores, kept)
        yield Negatives(query_id, ["p1"], doc_ids, falling(doc_ids).scores, drops=drops if dropped else None)


def small_sources(folder):
    """Two lists of negatives, of which one tells what was left out, and two runs."""
    folder.mkdir(exist_ok=True)
    write_collection(SmallCollection(), folder / "stored", Silent())
    write_negatives(folder / "mined.arrow", recorded(negatives(MINED, ["long", "p1"]), folder / "dropped.arrow"))
    write_negatives(folder / "other.arrow", negatives(OTHER))
    for name, lists in RUNS.items():
        write_run(folder / f"{name}.trec", [(query_id, falling(doc_ids)) for query_id, doc_ids in lists.items()])
    return BrowseSources(
        "small </title>",
        folder / "looked.marks.qrels",
        negatives={"mined": folder / "mined.arrow", "other": folder / "other.arrow"},
        dropped={"mined": folder / "dropped.arrow"},
        runs={name: folder / f"{name}.trec" for name in RUNS},
        dataset=folder / "stored",
    )
