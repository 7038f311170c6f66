"""`python -m hardneg.training.refresh SETTINGS`: what the trainer starts beside it."""

import sys

from hardneg.training.refresh.inferencer import main

main(sys.argv[1])
