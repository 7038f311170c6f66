"""The lines of Python by which Pyserini opens hardneg's output: `hardneg pyserini FOLDER` prints them."""
