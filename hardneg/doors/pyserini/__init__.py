"""The lines of Python by which Pyserini opens what hardneg wrote: `python -m hardneg.pyserini FOLDER` prints them."""
