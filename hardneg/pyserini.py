"""`python -m hardneg.pyserini FOLDER` prints the lines of Python by which Pyserini opens what hardneg wrote."""

import sys

if __name__ == "__main__":
    from hardneg.cli.main import main

    sys.argv.insert(1, "pyserini")
    main()
