"""Writes a BEIR folder with passages of another one beside its own: distractors that no query asks for.

    python benchmarks/pooled_distractors.py medquad insuranceqa pooled --passages 11044

The first passages of the other corpus come last, under ids that begin with `distractor-`. Everything else is a copy.
"""

import argparse
import json
import shutil
from itertools import islice
from pathlib import Path


def pooled(source: Path, other: Path, target: Path, passages: int) -> int:
    """Writes the folder, and returns how many distractors there are."""
    shutil.copytree(source, target)
    with (other / "corpus.jsonl").open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in islice(lines, passages)]
    with (target / "corpus.jsonl").open("a", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps({**row, "_id": f"distractor-{row['_id']}"}, ensure_ascii=False) + "\n")
    return len(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description="A BEIR folder with distractors of another one.")
    parser.add_argument("source", type=Path)
    parser.add_argument("other", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--passages", type=int, required=True)
    options = parser.parse_args()
    print(f"{pooled(options.source, options.other, options.target, options.passages)} distractors")


if __name__ == "__main__":
    main()
