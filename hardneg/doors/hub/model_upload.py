"""A model for the hub: its files, its card, and its recipe."""

import json
from pathlib import Path

from hardneg.doors.hub.cards import pushed_model_card
from hardneg.doors.hub.pushable_files import listed_files, model_files
from hardneg.doors.hub.pushed_folder import PushedFolder
from hardneg.doors.hub.recorded_run import RecordedRun
from hardneg.doors.hub.upload import CARD, Upload
from hardneg.records.errors import ModelError, UsageError
from hardneg.records.layout import MODEL_FOLDER, SPEC_FILE

_RERANKER = """\
---
library_name: sentence-transformers
pipeline_tag: text-ranking
tags: [sentence-transformers, cross-encoder, reranker, hardneg]
---

# Reranker

## Use

```python
from sentence_transformers import CrossEncoder

model = CrossEncoder("path/to/this/folder")
scores = model.predict([("a question", "a passage")])
```
"""


def model_upload(pushed: PushedFolder, repo: str) -> Upload:
    """The upload of a model without a recipe; the files of an artifact are compared with its manifest.

    Raises:
        ModelError: it is none that can go.
        ArtifactError: a file has changed since it was written.
    """
    notes: list[str] = []
    folder, upload_type = pushed.folder, "reranker" if _scores_pairs(pushed.folder) else "model"
    if pushed.artifact:
        files = listed_files(folder, pushed.artifact, pushed.part, notes, ())
    else:
        files = model_files(folder, notes)
    card = pushed_model_card(_card(folder, upload_type), repo, None, "", pushed.origin_paragraphs)
    return Upload.of(upload_type, card, files, [*notes, *_licence(card)])


def run_model_upload(run: RecordedRun, repo: str) -> Upload:
    """The model of a run folder, with the recipe's lock file.

    Raises:
        UsageError: the recipe makes no model.
        ArtifactError: a file has changed since it was written.
    """
    folder, stage = run.folder / MODEL_FOLDER, run.output("model")
    if not folder.is_dir():
        raise UsageError(f"{run.folder}: no {MODEL_FOLDER}/ there: give {{wanted}} index, negatives or runs", "wanted")
    notes: list[str] = []
    files = run.compared_files("model", folder, notes, {CARD})
    files = model_files(folder, notes) if files is None else files
    card = pushed_model_card(_card(folder, "model"), repo, run if stage else None, stage or "")
    return Upload.of("model", card, files, [*notes, *_licence(card)], run.shown_lock())


def _card(folder: Path, upload_type: str) -> str:
    """The card in the folder, or one generated from the model."""
    path = folder / CARD
    if path.is_file():
        return path.read_text(encoding="utf-8")
    if upload_type == "reranker":
        return _RERANKER
    from hardneg.encoders.open.model_card import model_card
    from hardneg.encoders.open.resolved import load_learner
    from hardneg.encoders.spec import ModelSpec

    known = (folder / SPEC_FILE).is_file()
    try:
        return model_card(load_learner(folder if known else ModelSpec(str(folder)), "cpu"), {})
    except ModelError as error:
        raise ModelError(f"{path}: is not there, and none can be made ({error}): write one") from None


def _scores_pairs(folder: Path) -> bool:
    """Whether the model is a cross-encoder, by its own files."""
    named = [folder / "config_sentence_transformers.json", folder / "config.json"]
    texts = [json.loads(path.read_text(encoding="utf-8")) for path in named if path.is_file()]
    declared = [str(text.get("model_type")) for text in texts]
    declared += [str(name) for text in texts for name in text.get("architectures") or ()]
    return "CrossEncoder" in declared or any(name.endswith("ForSequenceClassification") for name in declared)


def _licence(card: str) -> list[str]:
    has = any(line.startswith("license:") for line in card.split("---")[1].splitlines())
    return [] if has else [f"the card names no licence: write `license: ...` into the first lines of {CARD}"]
