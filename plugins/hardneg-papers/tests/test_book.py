"""The stages that a book writes."""

from hardneg_papers.book import Book, deep


def test_changes_are_laid_over_mapping_by_mapping():
    base = {"loss": {"name": "star"}, "options": {"max_steps": 10, "warmup_steps": 2}}
    changed = deep(base, {"options": {"epochs": 3, "stop_at": 5}}, {"loss": {"temperature": 1.0}})
    assert changed == {
        "loss": {"name": "star", "temperature": 1.0},
        "options": {"warmup_steps": 2, "epochs": 3, "stop_at": 5},
    }
    assert base["options"] == {"max_steps": 10, "warmup_steps": 2}


def test_a_system_has_an_index_searches_and_rows():
    book = Book("t", "pydocs", {"name": "m"}, {"search": {"depth": 5}})
    book.tables({"BM25": "bm25"}, ["BM25"], ["mrr@10"])
    book.searches["dev"] = {"split": "dev", "row": "{name} (dev)", "table": "scores"}
    book.system("star", "STAR", negatives="mined")
    book.system("adore", "ADORE", "train-queries", model="star", index="star-index", report=False)
    tree = book.tree()["stages"]
    assert tree["star"] == {"stage": "train", "negatives": "mined"}
    assert tree["star-index"] == {"stage": "encode", "model": "star"}
    assert tree["star-dev"] == {"stage": "search", "depth": 5, "index": "star-index", "split": "dev"}
    assert tree["adore-test"] == {"stage": "search", "depth": 5, "index": "star-index", "model": "adore"}
    assert list(tree["scores"]["runs"]) == ["BM25", "STAR", "STAR (dev)", "ADORE", "ADORE (dev)"]
    assert tree["report"]["training"] == {"STAR": "star"}
    assert list(tree)[-2:] == ["scores", "report"]
