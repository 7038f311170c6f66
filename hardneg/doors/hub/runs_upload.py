"""Runs for the hub: the ranked lists of a finished recipe, as TREC has them, and their scores."""

from hardneg.doors.hub.cards import listed, with_metadata
from hardneg.doors.hub.pushable_files import compare, some_files
from hardneg.doors.hub.recorded_run import RecordedRun
from hardneg.doors.hub.upload import HubFile, Upload
from hardneg.records.errors import UsageError
from hardneg.records.layout import METRICS, RUN

_PATTERNS = ("runs/*.trec.gz", METRICS)


def runs_upload(run: RecordedRun, repo: str) -> Upload:
    """The runs of a run folder with the metrics and the lock file.

    Raises:
        UsageError: it has none.
        ArtifactError: one has changed since it was written.
    """
    notes: list[str] = []
    files = some_files(run.folder, _PATTERNS, [])
    if not any(file.path.startswith("runs/") for file in files):
        raise UsageError(f"{run.folder}: no runs there: give {{wanted}} model, index or negatives", "wanted")
    unknown = [file.path for file in files if not _is_unchanged(file, run)]
    if unknown:
        notes.append(
            f"not compared with a manifest, which the store {run.store.root} has not: {', '.join(unknown[:5])}"
        )
    card = _card(run, repo, [file.path for file in files])
    return Upload.of("runs", card, files, notes, run.shown_lock())


def _is_unchanged(file: HubFile, run: RecordedRun) -> bool:
    """Whether a run is its stage's result; False where that is not known."""
    stage = file.path.removeprefix("runs/").removesuffix(".trec.gz")
    artifact = run.artifact(stage)
    if file.path == METRICS:
        return True
    if artifact is None or isinstance(file.source, bytes):
        return False
    compare(file.source.parent, {file.source.name: artifact.files.get(RUN, "")})
    return True


def _card(run: RecordedRun, repo: str, paths: list[str]) -> str:
    from huggingface_hub import DatasetCardData

    data = DatasetCardData(pretty_name=repo.rpartition("/")[2], tags=["retrieval", "trec", "hardneg"], viewer=False)
    runs = [path for path in paths if path.startswith("runs/")]
    facts = {"Dataset": f"`{run.dataset}`", "Recipe": f"`{run.lock.get('recipe', '')}`", "Runs": len(runs)}
    use = f"""\
```python
from huggingface_hub import hf_hub_download

path = hf_hub_download("{repo}", "{runs[0]}", repo_type="dataset")
```

trec_eval, ranx, Pyserini and `hardneg evaluate --run` read it."""
    from hardneg.encoders.open.model_card import scores_table

    table = scores_table(run.systems()) if run.systems() else ""
    told = f"Means over {run.queries}. `{METRICS}` has them by query, with paired tests."
    scores = ["## Scores", table, told] if table else []
    return with_metadata(data, [f"# Runs over {run.dataset_title}", listed(facts), *scores, "## Use", use])
