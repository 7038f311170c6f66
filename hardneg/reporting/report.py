"""The report of a recipe or of run files: a `Report` in, Markdown and one HTML page out."""

from pathlib import Path

from hardneg.atomic_write import replace_text
from hardneg.reporting.content import Estimate, Report, estimates
from hardneg.reporting.html import html
from hardneg.reporting.markdown import markdown

NAMES = ("report.md", "report.html")

__all__ = ["NAMES", "Estimate", "Report", "estimates", "html", "markdown", "write_report"]


def write_report(folder: Path, report: Report) -> list[Path]:
    """Writes `report.md` and `report.html`, which say the same, and returns their paths."""
    pages = dict(zip([folder / name for name in NAMES], (markdown(report), html(report)), strict=True))
    for path, text in pages.items():
        replace_text(path, text)
    return list(pages)
