"""A folder of documents in several forms, for tests."""

from pathlib import Path
from typing import Any

from hardneg.datasets.documents import Documents
from hardneg.records import Document

MARKDOWN = """---
title: not text
---
# Birds

All of *them* [fly](http://a.b).

## Owls

| when | where |
|---|---|
| night | woods |

<!-- a comment -->

```
# no heading
```
"""
HTML = """<html><head><title>T</title><style>p {}</style></head><body><nav>Home</nav>
<h1>Fish &amp; co</h1>
<p>They <b>swim</b>
fast.</p><script>x()</script>
<ul><li>cod</li></ul></body></html>"""


def documents_in(tmp_path: Path) -> Path:
    """Writes them there, and files beside that are not read."""
    (tmp_path / "notes").mkdir()
    (tmp_path / "birds.md").write_text(MARKDOWN)
    (tmp_path / "fish.html").write_text(HTML)
    (tmp_path / "notes/a b.txt").write_text("First one. Second one.\r\n\r\nThird.")
    (tmp_path / "rows.csv").write_text('title,text\nT,"a, long\ntext"\n,more\n')
    (tmp_path / "rows.jsonl").write_text('{"text": "one", "title": "J"}\n\n{"text": "two"}\n')
    (tmp_path / "photo.png").write_bytes(b"\x89PNG")
    (tmp_path / "empty.txt").write_text(" \n")
    (tmp_path / ".hidden.txt").write_text("secret")
    return tmp_path


def documents(folder: Path, **options: Any) -> list[Document]:
    return list(Documents(str(folder), **options).load().documents())
