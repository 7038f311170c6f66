"""The authors' own programs beside hardneg: the same numbers in, what comes out of both.

    python benchmarks/parity.py --drhard DRhard --ance ANCE --jpq JPQ --cort CoRT --splade splade \\
        --rocketqa RocketQA/research/RocketQA_NAACL2021 --simans SimXNS/SimANS \\
        --tas-b matchmaker --ance-tele ANCE-Tele          those that you have checked out, each a folder

Nothing is fetched, and no file of theirs is changed or copied: single functions and lines are read out of the files and
run here. It prints a table in Markdown: the item, how many cases, the largest difference of values and of gradients,
and whether that is rounding. Exit code 1 if any item differs or could not be compared. The page parity.md has what
it printed, with the programs' commits.
"""

import argparse
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from originals import lists, losses, steps, vectors
from originals.comparing import HEAD, Item, compared

PROGRAMS = {
    "drhard": "jingtaozhan/DRhard, STAR and ADORE",
    "jpq": "jingtaozhan/JPQ",
    "ance": "microsoft/ANCE",
    "rocketqa": "PaddlePaddle/RocketQA, its folder research/RocketQA_NAACL2021",
    "cort": "lavis-nlp/CoRT",
    "splade": "naver/splade",
    "tas-b": "sebastian-hofstaetter/matchmaker, which TAS-B is trained by",
    "simans": "microsoft/SimXNS, its folder SimANS",
    "ance-tele": "OpenMatch/ANCE-Tele",
}


def items_of(program: str) -> Sequence[Item]:
    """All that is compared with a program."""
    parts: Sequence[Mapping[str, Sequence[Item]]] = (losses.ITEMS, vectors.ITEMS, steps.ITEMS, lists.ITEMS)
    return [item for part in parts for item in part.get(program, ())]


def main(arguments: Sequence[str] | None = None) -> int:
    """Compares what the folders have and prints the table; 1 if anything differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for program, source in PROGRAMS.items():
        parser.add_argument(f"--{program}", type=Path, metavar="FOLDER", help=f"a checkout of {source}")
    parser.add_argument("--seed", type=int, default=0, help="of all random numbers (default: 0)")
    given = vars(parser.parse_args(arguments))
    folders = {program: folder for program in PROGRAMS if (folder := given[program.replace("-", "_")]) is not None}
    if not folders:
        parser.error("give the folder of one program at least")
    print(HEAD)
    alike = True
    for program, folder in folders.items():
        for item in items_of(program):
            torch.manual_seed(given["seed"])
            np.random.seed(given["seed"])
            row = compared(item, folder)
            print(row.written(), flush=True)
            alike = alike and row.equal
    return 0 if alike else 1


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    raise SystemExit(main())
