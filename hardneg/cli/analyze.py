"""`hardneg analyze`: what lies behind the metrics, from plain files."""

import typer

from hardneg.cli.analyses.costs import costs, operations
from hardneg.cli.analyses.denoising import denoising, planted
from hardneg.cli.analyses.errors import errors
from hardneg.cli.analyses.first_stage import candidates, depths, dimensions
from hardneg.cli.analyses.histories import drift, gradients, refreshes
from hardneg.cli.analyses.projection import projection
from hardneg.cli.analyses.runs import holes, overlap, scores, wins
from hardneg.cli.options import METRIC, METRICS, renaming

app = typer.Typer(
    help="What lies behind the metrics: errors, drift and filters of negatives, overlaps, holes, wins, costs.",
    no_args_is_help=True,
)
_BASELINE = {"--against": "--baseline"}
app.command(cls=renaming({"--cut": "--depth"}))(errors)
app.command()(drift)
app.command()(gradients)
app.command()(refreshes)
app.command()(scores)
app.command(cls=renaming(_BASELINE))(overlap)
app.command(cls=renaming(_BASELINE, METRICS))(holes)
app.command(cls=renaming({**_BASELINE, "--examples": "--limit"}, METRIC))(wins)
app.command(cls=renaming({"--examples": "--limit"}))(denoising)
app.command(cls=renaming({"--scores": "--filter-by"}))(planted)
app.command(cls=renaming({"--negatives": "--count"}))(projection)
app.command()(depths)
app.command(cls=renaming({"--count": "--depth"}, METRIC))(candidates)
app.command(cls=renaming(same=METRIC))(dimensions)
app.command(cls=renaming({"--method": "--stage"}))(costs)
app.command()(operations)
