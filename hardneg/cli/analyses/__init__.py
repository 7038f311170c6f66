"""One file a family of analyses; `hardneg.cli.analyze` has them all."""
