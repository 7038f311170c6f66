"""The marks that MkDocs, Docusaurus and MyST add to Markdown."""

import re
from collections.abc import Iterator

_FENCE = re.compile(r"[ \t>]*(`{3,}|~{3,})")
_ADMONITION = re.compile(
    r"[ \t]*(?:/{3,}[ \t]*(?:[\w-]+[ \t]*(?:\|(.*))?)?|:{3,}[ \t]*(?:\{?[\w-]+\}?(?:\[(.*)\])?(.*))?"
    r'|(?:!!!|\?\?\?\+?|===)[ \t]+(?=[\w"])[\w -]*(?:"(.*)")?)[ \t]*'
)
"""Of Python-Markdown's blocks, Docusaurus and MyST, and MkDocs; with its title."""
_INCLUDED = re.compile(r"[ \t]*(?:\{\*.*\*\}|\{!.*!\}|-+8<-+.*|\{%.*%\}|\{\{[<%].*[>%]\}\})[ \t]*")
_ATTRIBUTES = re.compile(r"(?:(?<=\))|[ \t]+(?=\{[^{}]*\}[ \t]*$))\{(?::|[ \t]*[#.])[^{}]*\}")
"""Of a heading or paragraph at its end, and of a link after it."""


def without_site_marks(text: str) -> Iterator[str]:
    """The lines outside of code without attributes, includes and the fences of admonitions, of which titles stay."""
    fence, indented = "", False
    for line in text.split("\n"):
        if indented := indented and (line.startswith("    ") or not line.strip()):
            line = line[4:]
        if mark := _FENCE.match(line):
            fence = "" if fence and mark[1].startswith(fence) else fence or mark[1]
        elif not fence and _INCLUDED.fullmatch(line):
            line = ""
        elif not fence and (admonition := _ADMONITION.fullmatch(line)):
            indented = line.lstrip()[:1] in "!?="
            line = next(filter(None, admonition.groups()), "").strip()
        elif not fence:
            line = _ATTRIBUTES.sub("", line)
        yield line
