"""Run `python -m hardneg.pyserini FOLDER` to print Python code that opens hardneg's indexes in Pyserini."""

import sys

from hardneg.cli.main import main

if __name__ == "__main__":
    sys.argv.insert(1, "pyserini")
    main()
