"""A program that runs a command line and kills itself when a task of a title has advanced so often."""

import sys

from stages.killed import Killing

from hardneg.cli import console
from hardneg.cli.main import app


def main(title: str, count: str, *arguments: str) -> None:
    console.Bars = lambda: Killing(title, int(count))
    app(list(arguments))


if __name__ == "__main__":
    main(*sys.argv[1:])
