"""Files of a model's folder, changed."""

import json
from pathlib import Path


def change_json(path: Path, **values: object) -> None:
    content = json.loads(path.read_text()) if path.is_file() else {}
    path.write_text(json.dumps(content | values))


def cut_at(folder: Path, length: int, side: str) -> None:
    cut = {"direction": side, "max_length": length, "strategy": "LongestFirst", "stride": 0}
    change_json(folder / "tokenizer.json", truncation=cut)
