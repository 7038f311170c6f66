"""`hardneg analyze`: what lies behind the metrics, from plain files."""

import typer

from hardneg.cli.analyses.costs import costs, operations
from hardneg.cli.analyses.denoising import denoising, planted
from hardneg.cli.analyses.errors import errors
from hardneg.cli.analyses.first_stage import candidates, depths, dimensions
from hardneg.cli.analyses.histories import drift, gradients, refreshes
from hardneg.cli.analyses.projection import projection
from hardneg.cli.analyses.runs import holes, overlap, scores, wins

app = typer.Typer(
    help="What lies behind the metrics: errors, drift and filters of negatives, overlaps, holes, wins, costs.",
    no_args_is_help=True,
)
_COMMANDS = (errors, drift, gradients, refreshes, scores, overlap, holes, wins, denoising, planted, projection)
for _command in (*_COMMANDS, depths, candidates, dimensions, costs, operations):
    app.command()(_command)
