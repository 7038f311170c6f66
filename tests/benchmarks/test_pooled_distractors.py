"""Distractors beside a collection."""

import json
from pathlib import Path

from benchmarks.pooled_distractors import pooled


def corpus(folder: Path, *ids: str) -> Path:
    folder.mkdir()
    (folder / "corpus.jsonl").write_text(
        "".join(json.dumps({"_id": name, "text": f"of {name}"}) + "\n" for name in ids)
    )
    return folder


def test_the_first_passages_of_another_corpus_come_last_under_ids_of_their_own(tmp_path: Path) -> None:
    own, other = corpus(tmp_path / "own", "a", "b"), corpus(tmp_path / "other", "a", "c", "d")
    (own / "groups.tsv").write_text("a\tg\n")
    assert pooled(own, other, tmp_path / "both", 2) == 2
    rows = [json.loads(line) for line in (tmp_path / "both" / "corpus.jsonl").read_text().splitlines()]
    assert [(row["_id"], row["text"]) for row in rows] == [
        ("a", "of a"),
        ("b", "of b"),
        ("distractor-a", "of a"),
        ("distractor-c", "of c"),
    ]
    assert (tmp_path / "both" / "groups.tsv").read_text() == "a\tg\n"
