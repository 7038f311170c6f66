"""An index for the hub: its files, and a card with what encoded it and how to open it."""

from pathlib import Path

from hardneg.artifacts import Store
from hardneg.data.doc_ids import DOC_IDS
from hardneg.data.shards import SHARDS, Shards
from hardneg.data.term_list import TERMS
from hardneg.errors import UsageError
from hardneg.hub.allowed import listed_files, some_files
from hardneg.hub.cards import listed, made_section, with_metadata
from hardneg.hub.recorded import RecordedRun
from hardneg.hub.stored import StoredThing
from hardneg.hub.upload import CARD, HubFile, Upload, in_order
from hardneg.indexes.stored import form_in
from hardneg.layout import INDEX_FOLDER, LOCK

_OWN = ("index", DOC_IDS, "sparse.json", TERMS, "codebooks.safetensors", SHARDS)
_ARRAYS = ("offsets", "terms", "weights", "nearest", "codes", "lists", "lists_offsets")
_LUCENE = ("segments_*", "_*.*")
_FILES = (*_OWN, *(f"{name}.npy" for name in _ARRAYS), *_LUCENE)
FILES = (*_FILES, *(f"shard-*/{name}" for name in (*_FILES, "shard.json")), *(f"pooled/{name}" for name in _FILES))
"""What an index folder may hold of an index, by patterns."""
_CHUNK = 1 << 22
_FORMS = {
    "vectors": "dense vectors, a faiss index",
    "weights": "weights of terms",
    "token-vectors": "a vector a token",
    "lucene": "a Lucene index",
    "impacts": "a Lucene index of weights of terms",
}


def is_index(folder: Path) -> bool:
    """Whether a folder holds an index."""
    return form_in(folder) is not None or any(folder.glob("segments_*")) or (folder / "codes.npy").exists()


def index_upload(thing: StoredThing, repo: str, encoder: str) -> Upload:
    """An index that no recipe is known of; encoder: the repository of its model, empty where that is not known.

    Raises:
        UsageError: it lies in shards at URLs.
        ArtifactError: a file is not as it was made.
    """
    notes: list[str] = []
    folder = _whole(thing.folder)
    if thing.artifact:
        files = listed_files(folder, thing.artifact, thing.part, notes, ())
    else:
        files = some_files(folder, FILES, notes)
    card = _card(folder, repo, encoder, "a corpus", thing.told)
    return Upload("index", in_order([HubFile(CARD, card.encode()), *files]), tuple(notes))


def run_index_upload(run: RecordedRun, repo: str, store: Store, encoder: str) -> Upload:
    """The index of a run folder, with the recipe's lock file.

    Raises:
        UsageError: the recipe makes no index.
        ArtifactError: a file is not as it was made.
    """
    folder, stage = run.folder / INDEX_FOLDER, run.output("index")
    if not folder.is_dir():
        raise UsageError(f"{run.folder}: no {INDEX_FOLDER}/ there: say --what model, negatives or runs")
    notes: list[str] = []
    made = run.artifact(stage, store) if stage else None
    if stage and made:
        files = listed_files(_whole(folder), made, run.part(stage, "index"), notes, ())
    else:
        notes.append(f"its files are not compared with a manifest: the store {store.root} has none of it")
        files = some_files(_whole(folder), FILES, notes)
    card = _card(folder, repo, encoder, run.dataset_title, _told(run, stage) if stage else [])
    own = [HubFile(CARD, card.encode()), HubFile(LOCK, run.shown_lock().encode())]
    return Upload("index", in_order([*own, *files]), tuple(notes))


def _whole(folder: Path) -> Path:
    shards = Shards.of(folder)
    if shards is not None and shards.elsewhere:
        raise UsageError(
            f"{folder}: its shards are at URLs: `hardneg index merge` makes one folder, which can be pushed"
        )
    return folder


def _told(run: RecordedRun, stage: str) -> list[str]:
    model = run.query_model(stage)
    encoded = [f"The key of the model that encodes its queries is `{run.key(model)}`."] if model else []
    return [*made_section(run, stage), *encoded]


def _card(folder: Path, repo: str, encoder: str, corpus: str, told: list[str]) -> str:
    from huggingface_hub import DatasetCardData

    form = _form(folder)
    tags = ["retrieval", "index", *(["faiss"] if form == "vectors" else []), "pyserini", "hardneg"]
    data = DatasetCardData(pretty_name=repo.rpartition("/")[2], tags=tags, viewer=False)
    facts = {"Form": _FORMS[form], **_entries(folder)}
    if encoder:
        facts["Encoded by"] = f"[{encoder}](https://huggingface.co/{encoder})"
    return with_metadata(data, [f"# Index of {corpus}", listed(facts), *told, "## Use", _use(form, repo, encoder)])


def _form(folder: Path) -> str:
    if any(folder.glob("segments_*")):
        return "impacts" if (folder / TERMS).exists() else "lucene"
    return form_in(folder) or "token-vectors"


def _entries(folder: Path) -> dict[str, str]:
    """How many documents or segments it has rows for, where a file says that."""
    path = folder / DOC_IDS
    if not path.is_file():
        return {}
    with path.open("rb") as file:
        count = sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(_CHUNK), b""))
    return {"Rows": f"{count:,}"}


def _use(form: str, repo: str, encoder: str) -> str:
    fetched = ["from huggingface_hub import snapshot_download"]
    placed = f'folder = snapshot_download("{repo}", repo_type="dataset")'
    if form == "vectors":
        fetched += ["from pyserini.search.faiss import FaissSearcher"]
        model = f"the encoder that the card of {encoder} names" if encoder else "that of the model"
        lines = [placed, f"searcher = FaissSearcher(folder, encoder)  # {model}"]
    elif form == "lucene":
        fetched += ["from pyserini.search.lucene import LuceneSearcher"]
        lines = [placed, "searcher = LuceneSearcher(folder)"]
    elif form == "impacts":
        fetched += ["from pyserini.search.lucene import LuceneImpactSearcher"]
        lines = [placed, "searcher = LuceneImpactSearcher(folder, encoder, min_idf=-1)"]
    else:
        fetched += ["from hardneg.indexes.stored import open_store"]
        return "\n".join(
            [
                "```python",
                *map(str, ["from pathlib import Path", "", *fetched, "", placed]),
                "searcher = open_store(Path(folder))",
                "```",
            ]
        )
    return "\n".join(["```python", *fetched, "", *lines, 'hits = searcher.search("a question", k=10)', "```"])
