"""A small BEIR folder of questions with short answers."""

import json
from pathlib import Path

from recipes.recipes import TOPICS, WORDS, small_collection


def questions(folder: Path, labelled: bool = True) -> Path:
    """The small collection, where the answer to "old river" is `old`, or the two words together for every third one.

    Not labelled: the training queries keep their place in the split by a judgement of 0.
    """
    small_collection(folder)
    rows = []
    for i, line in enumerate((folder / "queries.jsonl").read_text().splitlines()):
        topic, word = TOPICS[i // len(WORDS)], WORDS[i % len(WORDS)]
        rows.append({**json.loads(line), "answers": [f"{word.upper()} {topic}" if i % 3 == 0 else word]})
    (folder / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    if not labelled:
        path = folder / "qrels" / "train.tsv"
        path.write_text(path.read_text().replace("\t1\n", "\t0\n"))
    return folder
