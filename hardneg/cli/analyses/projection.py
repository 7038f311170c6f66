"""`hardneg analyze projection`."""

from pathlib import Path
from typing import Annotated

import typer

from hardneg.cli.analyses.output import AsJson, Overwrite, Plot, Topics, check_plot, drawing, show
from hardneg.cli.evaluate import Level, QrelsFile
from hardneg.cli.options import DEVICE
from hardneg.errors import UsageError


def projection(
    query: Annotated[str, typer.Option("--query", help="The id of the query to show.")],
    qrels: QrelsFile,
    queries: Topics,
    index: Annotated[list[Path], typer.Option("--index", help="A dense index folder, before; a second one, after.")],
    model: Annotated[list[str], typer.Option("--model", help="The model of the queries, before; a second one, after.")],
    count: Annotated[int, typer.Option(min=1, help="How many negatives, those ranked highest before.")] = 100,
    seed: Annotated[int, typer.Option(help="Of t-SNE.")] = 42,
    relevance_level: Level = 1,
    as_json: AsJson = False,
    plot: Plot = None,
    overwrite: Overwrite = False,
    device: str | None = DEVICE,
) -> None:
    """Project a query, its positives and its negatives to two dimensions, before and after training.

    One --index with two --model shows a query-side training: the documents stay.

    Example: hardneg analyze projection --query ID --qrels Q --queries FILE --index FOLDER --model A --model B
    """
    from hardneg.analysis.figures.projection import draw_projection
    from hardneg.analysis.files import System, neighbourhoods
    from hardneg.analysis.projection import project
    from hardneg.cli.console import Bars, stderr_console

    if len(model) != 2 or len(index) not in (1, 2):
        raise UsageError("analyze projection: give --model twice, before and after, and --index once or twice")
    check_plot(plot, overwrite, qrels, queries, index)
    text, known = _known(query, queries, qrels, relevance_level)
    systems = [System.open(folder, name, device) for folder, name in zip([*index, index[0]], model, strict=False)]
    sides, ids = neighbourhoods(systems, text, known, count, Bars(stderr_console()))
    panels = dict(zip(("before", "after"), project(sides[0], sides[1], seed), strict=True))
    if plot:
        with drawing(plot):
            draw_projection(panels, [plot])
    rows = [
        [name, *(f"{x:.2f}" for x in panel.query), str(len(panel.positives)), str(len(panel.negatives))]
        for name, panel in panels.items()
    ]
    points = {name: panel.to_json() for name, panel in panels.items()}
    content = {"query_id": query, "text": text, "negatives": ids, "points": points}
    show(content, as_json, ("panel", "query x", "query y", "positives", "negatives"), rows)


def _known(query: str, queries: Path | None, qrels: Path, relevance_level: int) -> tuple[str, list[str]]:
    """The text of a query, and its positives."""
    from hardneg.analysis.texts import read_topics
    from hardneg.data.qrels import positives, read_qrels

    text = read_topics(queries).get(query) if queries else None
    known = positives(read_qrels(qrels), relevance_level).get(query, [])
    if text is None or not known:
        lacking = f"{queries} has no such query" if text is None else f"{qrels} has no positive for it"
        raise UsageError(f"query {query}: {lacking}; name another")
    return text, known
