"""`hardneg analyze`: what lies behind the metrics, from plain files."""

import typer

from hardneg.cli.analyses.costs import costs
from hardneg.cli.analyses.errors import errors
from hardneg.cli.analyses.histories import drift, gradients
from hardneg.cli.analyses.projection import projection

app = typer.Typer(
    help="What lies behind the metrics: pairwise errors, drift of negatives, gradients, a projection, costs.",
    no_args_is_help=True,
)
for _command in (errors, drift, gradients, projection, costs):
    app.command()(_command)
