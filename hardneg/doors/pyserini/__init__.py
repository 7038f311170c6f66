"""The lines of Python by which Pyserini opens hardneg's output: `python -m hardneg.pyserini FOLDER` prints them."""
