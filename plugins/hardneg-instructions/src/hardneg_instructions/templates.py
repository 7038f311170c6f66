"""A query with its instruction, put together as one text: what every encoder, index and reranker reads."""

from hardneg.plugin import PluginError

TEMPLATE = "{query} {instruction}"
"""The query, a blank, the instruction: as Promptriever was trained, and as mteb puts FollowIR's together."""


def check_template(template: str) -> None:
    """Raises PluginError where a template lacks the query, or has other names in braces."""
    try:
        written = template.format(query="\0", instruction="")
    except (KeyError, IndexError, ValueError):
        written = ""
    if "\0" not in written:
        raise PluginError(f"template: it must have {{query}}, and may have {{instruction}}, not {template!r}")


def instructed(template: str, query: str, instruction: str) -> str:
    """The text of a query; without an instruction the query alone."""
    return template.format(query=query, instruction=instruction).strip() if instruction else query
