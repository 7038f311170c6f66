"""The report of a recipe or of run files: a `Report` in, Markdown and one HTML page out."""

from pathlib import Path

from hardneg.evaluation.report_content import Estimate, Report, Section, estimates
from hardneg.evaluation.report_html import html
from hardneg.evaluation.report_markdown import markdown

__all__ = ["Estimate", "Report", "Section", "estimates", "html", "markdown", "write_report"]


def write_report(folder: Path, report: Report) -> list[Path]:
    """Writes `report.md` and `report.html`, which say the same, and returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = {folder / "report.md": markdown(report), folder / "report.html": html(report)}
    for path, text in pages.items():
        path.write_text(text, encoding="utf-8")
    return list(pages)
