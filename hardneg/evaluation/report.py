"""The report of a recipe: a `Report` in, Markdown or one HTML page out."""

from hardneg.evaluation.report_content import Estimate, Report, estimates
from hardneg.evaluation.report_html import html
from hardneg.evaluation.report_markdown import markdown

__all__ = ["Estimate", "Report", "estimates", "html", "markdown"]
