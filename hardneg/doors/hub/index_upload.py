"""An index for the hub: its files, and a card with its encoder and the lines of Python that fetch and search it."""

import re
from contextlib import suppress
from pathlib import Path

from hardneg.doors.hub.cards import listed, origin_section, with_metadata
from hardneg.doors.hub.pushable_files import listed_files, some_files
from hardneg.doors.hub.pushed_folder import PushedFolder
from hardneg.doors.hub.recorded_run import RecordedRun
from hardneg.doors.hub.upload import Upload
from hardneg.doors.pyserini.folders import Named, openings
from hardneg.doors.pyserini.openings import QuerySide, opening
from hardneg.encoders.open.pyserini_lines import quoted
from hardneg.indexes.open_store import form_in
from hardneg.records.errors import HardnegError, UsageError
from hardneg.records.layout import DOC_IDS, INDEX_FOLDER, SHARDS, TERMS

_OWN = ("index", DOC_IDS, "sparse.json", TERMS, "codebooks.safetensors", SHARDS)
_ARRAYS = ("offsets", "terms", "weights", "nearest", "codes", "lists", "lists_offsets")
_LUCENE = ("segments_*", "_*.*")
_FILES = (*_OWN, *(f"{name}.npy" for name in _ARRAYS), *_LUCENE)
FILES = (*_FILES, *(f"shard-*/{name}" for name in (*_FILES, "shard.json")), *(f"pooled/{name}" for name in _FILES))
"""The files of an index, by patterns."""
_CHUNK = 1 << 22
_FORMS = {
    "vectors": "dense vectors, a faiss index",
    "weights": "weights of terms",
    "token-vectors": "a vector a token",
    "lucene": "a Lucene index",
    "impacts": "a Lucene index of weights of terms",
}
_FETCH = "from huggingface_hub import snapshot_download"
_QUOTED = re.compile(r'"(/[^"]+)"')
_BY_HARDNEG = """\
from pathlib import Path

from hardneg.plugin import open_store
from huggingface_hub import snapshot_download

{placed}
searcher = open_store(Path(folder))"""
MODEL = "the-model"
"""The model in the lines where its repository is not known."""


def is_index(folder: Path) -> bool:
    """Whether a folder holds an index."""
    return form_in(folder) is not None or any(folder.glob("segments_*")) or (folder / "codes.npy").exists()


def index_upload(pushed: PushedFolder, repo: str, encoder: str) -> Upload:
    """An index that no recipe is known of; encoder: the repository of its model, empty where that is not known.

    Raises:
        ArtifactError: a file has changed since it was written.
    """
    notes: list[str] = []
    folder = pushed.folder
    if pushed.artifact:
        files = listed_files(folder, pushed.artifact, pushed.part, notes, ())
    else:
        files = some_files(folder, FILES, notes)
    lines = lines_of(folder, repo, encoder, None)
    card = _card(folder, repo, "a corpus", [*_encoded_by(encoder), *pushed.origin_paragraphs], lines)
    return Upload.of("index", card, files, notes)


def run_index_upload(run: RecordedRun, repo: str, encoder: str) -> Upload:
    """The index of a run folder, with the recipe's lock file.

    Raises:
        UsageError: the recipe makes no index.
        ArtifactError: a file has changed since it was written.
    """
    folder, stage = run.folder / INDEX_FOLDER, run.output("index")
    if not folder.is_dir():
        raise UsageError(f"{run.folder}: no {INDEX_FOLDER}/ there: give {{wanted}} model, negatives or runs", "wanted")
    notes: list[str] = []
    files = run.compared_files("index", folder, notes)
    files = some_files(folder, FILES, notes) if files is None else files
    paragraphs = [*_encoded_by(encoder), *(origin_section(run, stage) if stage else [])]
    if stage and (model := run.query_model(stage)):
        paragraphs.append(f"The key of the model that encodes its queries is `{run.key(model)}`.")
    card = _card(folder, repo, run.dataset_title, paragraphs, lines_of(folder, repo, encoder, run))
    return Upload.of("index", card, files, notes, run.shown_lock())


def _encoded_by(encoder: str) -> list[str]:
    return [f"Encoded by [{encoder}](https://huggingface.co/{encoder})."] if encoder else []


def _card(folder: Path, repo: str, corpus: str, paragraphs: list[str], lines: str) -> str:
    from huggingface_hub import DatasetCardData

    form = form_in(folder) or "token-vectors"
    if any(folder.glob("segments_*")):
        form = "impacts" if (folder / TERMS).exists() else "lucene"
    tags = ["retrieval", "index", *(["faiss"] if form == "vectors" else []), "pyserini", "hardneg"]
    data = DatasetCardData(pretty_name=repo.rpartition("/")[2], tags=tags, viewer=False)
    facts = listed({"Form": _FORMS[form], **_entries(folder)})
    return with_metadata(data, [f"# Index of {corpus}", facts, *paragraphs, "## Use", f"```python\n{lines}\n```"])


def _entries(folder: Path) -> dict[str, str]:
    """The number of documents or segments, where a file has it."""
    path = folder / DOC_IDS
    if not path.is_file():
        return {}
    with path.open("rb") as file:
        count = sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(_CHUNK), b""))
    return {"Rows": f"{count:,}"}


def lines_of(folder: Path, repo: str, encoder: str, run: RecordedRun | None) -> str:
    """How a user of a repository opens its index: by Pyserini where that can, else by hardneg.

    folder: of the index, here. encoder: the repository of its model, empty where unknown. run: of a
    finished recipe's index.
    """
    placed = f"folder = snapshot_download({quoted(repo)}, repo_type={quoted('dataset')})"
    text = _by_pyserini(folder, encoder, run)
    if text is None:
        return _BY_HARDNEG.format(placed=placed)
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
