"""`python -m hardneg.pyserini FOLDER` prints the Python lines with which Pyserini opens hardneg's outputs."""

import sys

from hardneg.cli.main import main

if __name__ == "__main__":
    sys.argv.insert(1, "pyserini")
    main()
