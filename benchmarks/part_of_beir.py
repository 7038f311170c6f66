"""Writes a part of a BEIR folder: the first queries of each split, their documents, and others up to a number.

    python benchmarks/part_of_beir.py insuranceqa part [--passages 9000] [--train 4000] [--dev 300] [--test 1000]

Queries come in the order of the qrels, documents in that of the corpus. Fewer documents make a task easier: figures of
a part stand beside those of the same part alone.
"""

import argparse
import json
from pathlib import Path


def part_of_qrels(source: Path, target: Path, count: int) -> tuple[set[str], set[str]]:
    """Writes the judgements of the first queries; returns the ids of these and of their documents."""
    head, *rows = source.read_text(encoding="utf-8").splitlines()
    queries = set(list(dict.fromkeys(row.split("\t")[0] for row in rows))[:count])
    kept = [row for row in rows if row.split("\t")[0] in queries]
    target.write_text("\n".join([head, *kept]) + "\n", encoding="utf-8")
    return queries, {row.split("\t")[1] for row in kept}


def part_of_lines(source: Path, target: Path, wanted: set[str], least: int = 0) -> None:
    """Writes the lines of the wanted ids, and the first others until there are `least`."""
    lines = [(json.loads(line)["_id"], line) for line in source.open(encoding="utf-8")]
    missing = least - sum(name in wanted for name, _ in lines)
    others = [name for name, _ in lines if name not in wanted][: max(0, missing)]
    chosen = wanted | set(others)
    target.write_text("".join(line for name, line in lines if name in chosen), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description="A part of a BEIR folder.")
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--passages", type=int, default=9000)
    for split, count in {"train": 4000, "dev": 300, "test": 1000}.items():
        parser.add_argument(f"--{split}", type=int, default=count)
    options = parser.parse_args()
    (options.target / "qrels").mkdir(parents=True)
    queries, documents = set[str](), set[str]()
    for split in ("train", "dev", "test"):
        name = f"qrels/{split}.tsv"
        asked, judged = part_of_qrels(options.source / name, options.target / name, getattr(options, split))
        queries |= asked
        documents |= judged
    part_of_lines(options.source / "queries.jsonl", options.target / "queries.jsonl", queries)
    part_of_lines(options.source / "corpus.jsonl", options.target / "corpus.jsonl", documents, options.passages)


if __name__ == "__main__":
    main()
