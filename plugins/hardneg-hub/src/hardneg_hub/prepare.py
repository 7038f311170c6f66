"""Prepare the upload of a run folder, an artifact in the store, or any other folder."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from hardneg.plugin import errors, layout, model_files, records, stores
from hardneg_hub.cards import (
    DATASET,
    LOCK,
    RecordedRun,
    dataset_card,
    index_lines,
    listed,
    mined_by,
    origin_section,
    pushed_model_card,
)
from hardneg_hub.private_paths import HUB_ID
from hardneg_hub.upload import (
    CARD,
    DOC_IDS,
    PICKLES,
    TERMS,
    Upload,
    check_unchanged,
    files_where,
    listed_files,
    matching,
)

INDEX_FOLDER, SHARDS = "index", "shards.json"
_MODEL_FILES = ("*.json", "*.safetensors", "*.txt", "*.model", "*.jinja", "*.tiktoken", "*.vocab", "bpe.codes")
UPLOADS = ("model", "index", "negatives")
_LONGEST = 96
_FOLDERS = {"model": layout.MODEL_FOLDER, "index": INDEX_FOLDER}
_COLUMNS = ["query_id", "positives", "negatives", "scores"]
_ARRAYS = ("offsets", "terms", "weights", "nearest", "codes", "lists", "lists_offsets")
_LUCENE = ("segments_*", "_*.*")
_OWN_FILES = ("index", DOC_IDS, "sparse.json", TERMS, "codebooks.safetensors", SHARDS)
_INDEX = (*_OWN_FILES, *(f"{name}.npy" for name in _ARRAYS), *_LUCENE)
_INDEX_FILES = (
    *_INDEX,
    *(f"shard-*/{name}" for name in (*_INDEX, "shard.json")),
    *(f"pooled/{name}" for name in _INDEX),
)


def check_name(name: str, argument: str = "repo") -> None:
    """Raise UsageError if a repository name is invalid. argument: the argument that the message names."""
    if not HUB_ID.fullmatch(name) or len(name) > _LONGEST or re.search(r"--|\.\.|\.git$|[-.](?:/|$)", name):
        rule = f"at most {_LONGEST} letters, digits, `-`, `_` and `.`, with `/` only in org/name, and no `--` or `..`"
        raise errors.UsageError(f"{{{argument}}} {name!r}: not a repository name; use {rule}", argument)


@dataclass(frozen=True)
class PushedFolder:
    """A folder or file to push. part: its path in the artifact. run, stage: those that created it, if known."""

    folder: Path
    artifact: Any = None
    part: str = "."
    run: RecordedRun | None = None
    stage: str | None = None

    def files(self, taken: Callable[[str], bool], notes: list[str], changed: Iterable[str] = ()) -> dict[str, Path]:
        """Return the files in the manifest, verified as unchanged. Without a manifest, return those `taken` accepts."""
        if self.artifact is not None:
            return listed_files(self.folder, self.artifact, self.part, notes, changed)
        if self.run is not None:
            notes.append(f"files are not compared with a manifest, because the store {self.run.store.root} has none")
        return files_where(self.folder, taken, notes)

    @property
    def origin(self) -> list[str]:
        """The card's paragraphs on how the content was made."""
        return origin_section(self.run, self.stage, self.artifact)


def prepare(
    folder: Path, repo: str, store: stores.Store, scratch: Path, what: str | None = None, encoder: str = ""
) -> Upload:
    """Prepare an upload without contacting the hub; tables are written to the folder `scratch`.

    what: one of `UPLOADS`; default: a run folder's model, or what is there. encoder: repository of an index's model.

    Raises:
        UsageError: the folder does not contain `what`, or a name is invalid.
        DataError: a file has private content, or is a broken link or a link out of the folder.
        ArtifactError: a file has changed since it was written.
        ModelError: the model cannot be uploaded.
    """
    from huggingface_hub import get_token

    check_name(repo)
    if encoder:
        check_name(encoder, "encoder")
    if what not in (None, *UPLOADS):
        raise errors.UsageError(f"{{wanted}} {what!r}: must be one of {', '.join(UPLOADS)}", "wanted")
    folder = folder.expanduser().absolute()
    kind, pushed = _of_run(folder, what, store) or _alone(folder, what)
    notes: list[str] = []
    if kind == "model":
        files = _model(pushed, repo, notes)
    else:
        files = _index(pushed, repo, encoder, notes) if kind == "index" else _negatives(pushed, repo, scratch)
    upload = Upload(kind, files | ({LOCK: pushed.run.shown_lock} if pushed.run else {}), tuple(notes))
    folders = {Path.home(), folder, folder.resolve(), store.root, scratch, Path.cwd()}
    telling = [str(path) for path in folders if len(path.parts) > 2 or path == Path.home() != Path("/")]
    upload.check_private([*telling, get_token() or ""])
    return upload


def _of_run(folder: Path, what: str | None, store: stores.Store) -> tuple[str, PushedFolder] | None:
    """Return the type and content to push for a run folder, or a model or index folder within one, else None."""
    inner = {name: kind for kind, name in _FOLDERS.items()}.get(folder.name)
    if (folder / LOCK).is_file():
        run, what = RecordedRun.open(folder, store), what or "model"
    elif inner and what in (None, inner) and (folder.parent / LOCK).is_file():
        run, what = RecordedRun.open(folder.parent, store), inner
    elif not (folder / stores.MANIFEST).is_file() and any((folder / name).is_dir() for name in _FOLDERS.values()):
        message = f"{folder}: not a finished run, as {LOCK} is missing; rerun the recipe, or push its model or index"
        raise errors.DataError(message)
    else:
        return None
    others = ", ".join(each for each in UPLOADS if each != what)
    lacking = errors.UsageError(f"{run.folder}: contains no {what}; set {{wanted}} to one of {others}", "wanted")
    if what == "negatives":
        mined = [name for name, spec in run.stages.items() if spec.artifact_type == what]
        if not (stages := run.negatives_of(run.output("model")) or mined[-1:]):
            raise lacking
        if (artifact := run.artifact(stages[0])) is None:
            message = f"the store {store.root} has no negatives of {stages[0]!r}; set {{store}} to the run's store"
            raise errors.ArtifactError(message, "store")
        return what, PushedFolder(artifact.path, artifact, run=run, stage=stages[0])
    if not (run.folder / _FOLDERS[what]).is_dir():
        raise lacking
    stage = run.output(what)
    artifact = run.artifact(stage) if stage else None
    part = str(run.stages[stage].parts.get(what, ".")) if stage else "."
    return what, PushedFolder(run.folder / _FOLDERS[what], artifact, part, run, stage)


def _alone(path: Path, what: str | None) -> tuple[str, PushedFolder]:
    """Return the type and content to push for an artifact, a part of it, or a path outside a store."""
    if not path.exists():
        raise errors.UsageError(f"{path}: does not exist; use the folder of a finished recipe")
    pushed = PushedFolder(path)
    for made in (path, path.parent):
        if (made / stores.MANIFEST).is_file():
            parts = [name for name in _FOLDERS.values() if (path / name).is_dir()] if made == path else []
            part = parts[0] if parts else path.name if made != path and path.is_dir() else "."
            pushed = PushedFolder(path.joinpath(*parts[:1]), stores.Store(made.parent).find(made.name), part)
            break
    kind, folder = None, pushed.folder
    if folder.is_file():
        kind = "negatives" if folder.suffix in (".arrow", ".parquet") else None
    elif any((folder / name).is_file() for name in ("modules.json", "config.json")):
        kind = "model"
    elif form_in(folder) is not None or any(folder.glob("segments_*")) or (folder / "codes.npy").exists():
        kind = "index"
    elif (folder / layout.NEGATIVES).is_file() or any(folder.glob("*.parquet")):
        kind = "negatives"
    if kind is None or what not in (None, kind):
        lacking = what or "run, model, index or negatives"
        raise errors.UsageError(
            f"{path}: contains no {lacking}; use the folder of a finished recipe, a model, an index or negatives"
        )
    return kind, pushed


def _model(pushed: PushedFolder, repo: str, notes: list[str]) -> dict[str, Path | bytes]:
    folder = pushed.folder
    modules, known = {folder, *model_files.read_folder(folder).modules}, matching(*_MODEL_FILES)
    for path in (path for each in modules for path in each.glob("*") if path.suffix in PICKLES):
        if not any(path.parent.glob("*.safetensors")):
            raise errors.ModelError(
                f"{path}: is a pickle, which may contain code; save the model with safetensors, then push it"
            )
    files = pushed.files(
        lambda name: (folder / name).parent in modules and known(Path(name).name), notes, changed=[CARD]
    )
    if not any(name.endswith(".safetensors") for name in files):
        raise errors.ModelError(f"{folder}: contains no safetensors weights; use the folder of a model")
    text = (folder / CARD).read_text(encoding="utf-8") if (folder / CARD).is_file() else f"# {repo}\n"
    card = pushed_model_card(text, repo, pushed.run if pushed.stage else None, pushed.stage or "", pushed.origin)
    if not any(line.startswith("license:") for line in card.split("---")[1].splitlines()):
        notes.append(f"the card has no licence; add `license: ...` to the first lines of {CARD}")
    return {CARD: card.encode(), **files}


def _index(pushed: PushedFolder, repo: str, encoder: str, notes: list[str]) -> dict[str, Path | bytes]:
    folder, run = pushed.folder, pushed.run
    files = pushed.files(matching(*_INDEX_FILES), notes)
    form = form_in(folder) or "token-vectors"
    lucene = f"a Lucene index{' of term weights' if (folder / TERMS).exists() else ''}"
    facts = {"Form": lucene if any(folder.glob("segments_*")) else form.replace("-", " ")}
    if (folder / DOC_IDS).is_file():
        with (folder / DOC_IDS).open("rb") as lines:
            facts["Rows"] = f"{sum(1 for _ in lines):,}"
    encoded = [f"Encoded by [{encoder}](https://huggingface.co/{encoder})."] if encoder else []
    model = run.query_model(pushed.stage) if run and pushed.stage else None
    keyed = [f"The key of the model that encodes its queries is `{run.key(model)}`."] if run and model else []
    title = f"# Index of {run.dataset_title if run else 'a corpus'}"
    tags = ["retrieval", "index", *(["faiss"] if form == "vectors" else []), "pyserini", "hardneg"]
    paragraphs = [title, listed(facts), *encoded, *pushed.origin, *keyed]
    card = dataset_card(repo, {"tags": tags, "viewer": False}, paragraphs, index_lines(folder, repo, encoder, run))
    return {CARD: card.encode(), **files}


def _negatives(pushed: PushedFolder, repo: str, scratch: Path) -> dict[str, Path | bytes]:
    """Return one Parquet file per split and a card with the metadata that `datasets.load_dataset` reads."""
    run, stage, artifact = pushed.run, pushed.stage, pushed.artifact
    if artifact is not None:
        check_unchanged(artifact.path, artifact.files)
    about, sources = "Passages that rank high and are not labelled as relevant.", _sources(pushed.folder)
    if run is not None and stage and artifact is not None:
        split = str(getattr(run.stages[stage], "split", "train"))
        key, keys = artifact.origin["inputs"].get(DATASET), {key: name for name, key in run.lock["keys"].items()}
        written = f" (written by stage `{keys[key]}`)" if keys.get(key, DATASET) != DATASET else ""
        about = f"Negatives of the {split} queries of {run.dataset_title}{written}, {mined_by(run, stage)}."
        sources = {split: artifact.path / layout.NEGATIVES}
    tables = {split: scratch / f"{split}-00000-of-00001.parquet" for split in sources}
    for split, source in sources.items():
        _copy(source, tables[split])
    counts = {split: parquet.read_metadata(path).num_rows for split, path in tables.items()}
    facts = {
        "Rows": ", ".join(f"{count:,} in `{split}`" for split, count in counts.items()),
        "Columns": ", ".join(f"`{name}`" for name in parquet.read_schema(next(iter(tables.values()))).names),
    }
    files = [{"split": split, "path": f"data/{path.name}"} for split, path in tables.items()]
    metadata = {
        "task_categories": ["text-retrieval"],
        "tags": ["hard-negatives", "sentence-transformers", "hardneg"],
        "configs": [{"config_name": "default", "data_files": files}],
    }
    lines = f'from datasets import load_dataset\n\nnegatives = load_dataset("{repo}", split="{next(iter(tables))}")'
    card = dataset_card(repo, metadata, ["# Hard negatives", about, listed(facts), *pushed.origin], lines)
    return {CARD: card.encode(), **{f"data/{path.name}": path for path in tables.values()}}


def _sources(path: Path) -> dict[str, Path]:
    """Return the files of negatives by split."""
    if path.is_file():
        return {"train": path}
    files = {source.stem: source for source in sorted(path.glob("*.parquet"))}
    if wrong := [name for name in files if not re.fullmatch(r"\w+(\.\w+)*", name)]:  # as `datasets` has it
        raise errors.UsageError(f"{path / wrong[0]}.parquet: a split must be one word, such as train; rename the file")
    return files or {"train": path / layout.NEGATIVES}


def _copy(source: Path, target: Path) -> None:
    """Write the rows as Parquet, without the source file's metadata, which may be private."""
    try:
        if arrow := source.suffix == ".arrow":
            table = pa.ipc.open_file(pa.memory_map(str(source))).read_all()
        else:
            table = parquet.read_table(source, partitioning=None)
    except (OSError, pa.ArrowException) as error:
        raise errors.DataError(f"{source}: cannot be read ({records.first_line(error)}); mine again") from None
    if arrow and table.column_names != _COLUMNS:
        raise errors.ArtifactError(f"{source}: expected columns {_COLUMNS}, found {table.column_names}; mine again")
    if not table.num_rows:
        raise errors.DataError(f"{source}: contains no negatives")
    parquet.write_table(table.replace_schema_metadata(None), target)


def form_in(folder: Path) -> str | None:
    """Return what an index stores: `weights`, `token-vectors` or `vectors`; None for other indexes and folders."""
    if (folder / "sparse.json").exists():
        return "weights"
    if not (folder / "index").exists() and not (folder / SHARDS).exists():
        return None
    return "token-vectors" if (folder / "offsets.npy").exists() else "vectors"
