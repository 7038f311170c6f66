"""Each page of the site as Markdown, `recommend.md` beside `recommend/`, and `llms.txt`, a list of all of them."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_NAVIGATION: list[Any] = []


def on_nav(nav: Any, config: Any, files: Any) -> Any:
    """Keeps the pages in the order of the site; mkdocs calls this."""
    _NAVIGATION[:] = nav.pages
    return nav


def on_post_build(config: Any) -> None:
    """Writes the pages and their list; mkdocs calls this."""
    site = Path(config["site_dir"])
    for page in _NAVIGATION:
        target = site / page.file.src_uri
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(page.markdown, encoding="utf-8")
    head = f"# {config['site_name']}\n\n> {config['site_description']}\n"
    (site / "llms.txt").write_text("\n".join([head, *_list(config["site_url"] or "")]) + "\n", encoding="utf-8")


def _list(address: str) -> Iterator[str]:
    """A line for each page, below the heading of its part of the site."""
    part = None
    for page in _NAVIGATION:
        if (section := page.ancestors[-1].title if page.ancestors else page.title) != part:
            part = section
            yield f"## {part}\n" if page is _NAVIGATION[0] else f"\n## {part}\n"
        yield f"- [{page.title}]({address}{page.file.src_uri}): {first_sentence(page.markdown)}"


def first_sentence(markdown: str) -> str:
    """The first sentence of a page's prose, without its links."""
    blocks = (" ".join(block.split()) for block in markdown.split("\n\n") if not block.startswith(("    ", "```")))
    text = next((block for block in blocks if re.match(r"[\w*`\[]", block)), "")
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text)
    return re.split(r"(?<=[.?!])\s", plain)[0]
