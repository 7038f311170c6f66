"""Files of a model's folder, changed."""

import json
from pathlib import Path


def _change(path: Path, **values: object) -> None:
    content = json.loads(path.read_text()) if path.is_file() else {}
    path.write_text(json.dumps(content | values))


def _cut_at(folder: Path, length: int, side: str) -> None:
    cut = {"direction": side, "max_length": length, "strategy": "LongestFirst", "stride": 0}
    _change(folder / "tokenizer.json", truncation=cut)
