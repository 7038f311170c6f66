"""The command line, for `python -m hardneg` and `accelerate launch -m hardneg`."""

from hardneg.cli.main import main

main()
