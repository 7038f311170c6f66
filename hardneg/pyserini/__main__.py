"""`python -m hardneg.pyserini FOLDER`."""

import sys

from hardneg.cli.main import main

sys.argv.insert(1, "pyserini")
main()
