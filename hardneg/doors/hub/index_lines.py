"""The lines of Python that fetch an index from the hub and search it."""

import re
from contextlib import suppress
from pathlib import Path

from hardneg.doors.hub.recorded_run import RecordedRun
from hardneg.doors.pyserini.folders import Named, openings
from hardneg.doors.pyserini.openings import QuerySide, opening
from hardneg.encoders.open.pyserini_lines import quoted
from hardneg.records.errors import HardnegError

_FETCH = "from huggingface_hub import snapshot_download"
_QUOTED = re.compile(r'"(/[^"]+)"')
_OWN = """\
from pathlib import Path

from hardneg.plugin import open_store
from huggingface_hub import snapshot_download

{placed}
searcher = open_store(Path(folder))"""
MODEL = "the-model"
"""The model in the lines where its repository is not known."""


def lines_of(folder: Path, repo: str, encoder: str, run: RecordedRun | None) -> str:
    """How a user of a repository opens its index: by Pyserini where that can, else by hardneg.

    folder: of the index, here. encoder: the repository of its model, empty where unknown. run: of a
    finished recipe's index.
    """
    placed = f"folder = snapshot_download({quoted(repo)}, repo_type={quoted('dataset')})"
    text = _by_pyserini(folder, encoder, run)
    if text is None:
        return _OWN.format(placed=placed)
    text = text.replace(quoted(str(folder)), "folder").replace(str(folder), repo)
    text = _QUOTED.sub(lambda match: quoted(encoder or MODEL), text)
    before, searcher, after = text.partition("searcher = ")
    return f"{_FETCH}\n{before}{placed}\n{searcher}{after}"


def _by_pyserini(folder: Path, encoder: str, run: RecordedRun | None) -> str | None:
    """The lines with paths of this machine; None where Pyserini has none for this form."""
    card = f"the card of {encoder}" if encoder else "its model's card"
    text = opening(folder, {}, QuerySide(reason=f"{card} describes how its queries are encoded"))
    if run is not None:
        lines = None
        with suppress(HardnegError):  # the model is not here
            lines = next((each for _, each in openings(run.folder / folder.name, run.store, Named())), None)
        inner = str(run.folder / "model" / "")
        text = lines if lines and f'"{inner}/' not in lines else text
    return text if "searcher = " in text else None
