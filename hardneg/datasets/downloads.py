"""The published files of known datasets: where each is, how large, and by what digest it is known."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hardneg.errors import UsageError
from hardneg.registry import suggestion

TABLE = Path(__file__).with_name("downloads.json")


@dataclass(frozen=True)
class Download:
    """One file.

    url: where it is. name: its name in the dataset's folder. size: its bytes; about: roughly, where no more is known.
    md5: its published digest; lines: how many it has, where no digest is published. members: what of an archive is
    unpacked.
    """

    url: str
    name: str
    size: int = 0
    about: int = 0
    md5: str = ""
    lines: int = 0
    members: tuple[str, ...] = ()

    @property
    def bytes(self) -> int:
        """How large it is, exactly or roughly."""
        return self.size or self.about


@dataclass(frozen=True)
class Published:
    """A dataset: the loader that reads its folder, where its terms are, and its files."""

    loader: str
    terms: str
    files: tuple[Download, ...]


def published(table: Path | None = None) -> Mapping[str, Published]:
    """All datasets of a table, by name."""
    rows: dict[str, Any] = json.loads((table or TABLE).read_text(encoding="utf-8"))
    return {name: _published(row) for name, row in rows.items() if isinstance(row, dict)}


def find_published(name: str, table: Path | None = None) -> Published:
    """The dataset of a name.

    Raises:
        UsageError: there is none, with what there is.
    """
    known = published(table)
    if name not in known:
        told = f"there are: {', '.join(known)}; others are read from the hub, such as hf:mteb/scifact"
        raise UsageError(f"no dataset {name!r} can be fetched{suggestion(name, known)}; {told}")
    return known[name]


def _published(row: dict[str, Any]) -> Published:
    files = [Download(**{**file, "members": tuple(file.get("members", ()))}) for file in row["files"]]
    return Published(row["loader"], row["terms"], tuple(files))
