"""`hardneg.diagnose`: all checks of a finished run."""

import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from operator import methodcaller
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardneg.plugin import (
    Candidates,
    HardnegError,
    ModelError,
    Negatives,
    PluginSetting,
    RankedList,
    Side,
    StoredCollection,
    Trait,
    argument_values,
    configure,
    layout,
    model_files,
    usual_store,
)
from hardneg_advice.finished_run import DATASET, CheckResult, Figures, FinishedRun, sample
from hardneg_advice.planted import scores_of
from hardneg_advice.trained import TRAININGS, collapse, learning_curve, outcome, trained_indexes, trained_rows

TRAIN = "train"
MOST_COPIES = 0.01
MOST_ABOVE = 2 / 3
"""A weak start model has many above; with 60 % mined negatives still helped (recipe `dose-start`, a static model)."""
MOST_HIDDEN = 0.5
MOST_SEEN = 0.5
_EACH = 20
MOST_CUT: dict[Side, float] = {"query": 0.05, "document": 0.5}
_AT_ONCE = 32
_SIDES: tuple[Side, ...] = ("query", "document")
_SEEN = "negatives relevant to queries of "
_NOT_LISTED = RankedList([], np.empty(0, np.float32))


def training_sets(run: FinishedRun) -> Sequence[str]:
    """The stages whose collections trainings read."""
    trainings = run.stages(*TRAININGS)
    return list(dict.fromkeys(maker for name in trainings for maker in run.datasets_of(name))) or [DATASET]


def shared_queries(run: FinishedRun, maker: str) -> CheckResult:
    """The queries of other splits whose text is that of a training query, but for case and spaces.

    They are those of the collection itself, or, where a stage wrote it and no evaluation reads it, of the recipe's
    dataset.
    """
    own = {*run.recipe.collections, *(run.dataset_of(name) for name in run.stages("evaluate"))}
    training, tested = run.collection(maker), run.collection(maker if maker in own else DATASET)
    splits = [name for name in tested.splits if name != TRAIN and not name.startswith(f"{TRAIN}.")]
    if TRAIN not in training.splits or not splits:
        return CheckResult("unknown", "there is no split train, or none beside it")
    known, figures, parts = {*_folded(training, TRAIN)}, Figures(), []
    for split in splits:
        texts = _folded(tested, split)
        figures[split] = count = sum(text in known for text in texts)
        parts.append(f"{count:,} of {len(texts):,} of {split}")
    return CheckResult.of(
        any(figures.values()),
        f"queries with the text of a training query: {', '.join(parts)}",
        figures,
        "what is measured there is partly memory: take these queries out of train, or out of the other split; "
        "`hardneg data check` lists them",
    )


def _folded(collection: StoredCollection, split: str) -> list[str]:
    texts = collection.queries(split).texts
    return [" ".join(unicodedata.normalize("NFKC", text).casefold().split()) for text in texts]


def cut_texts(run: FinishedRun, side: Side) -> CheckResult:
    """The share of a sample of documents, or of training queries, that has more tokens than the model reads."""
    if side == "document" and any(
        Trait.SEGMENTS in run.recipe.view(name).traits(name) for name in run.stages("encode")
    ):
        return CheckResult("fine", "documents are cut into segments, which are all read")
    folder, spec = run.model()
    most = spec.query_length if side == "query" else spec.document_length
    prompt = spec.query_prompt if side == "query" else spec.document_prompt
    lengths = _lengths(folder, side, [f"{prompt or ''}{text}" for text in _sampled(run, side)])
    if not len(lengths):
        return CheckResult("unknown", f"there is no {side} to count tokens of")
    share, middle = float((lengths > (most or 0)).mean()), float(np.median(lengths))
    line = f"{share:.1%} of {len(lengths):,} texts are longer than the {most} tokens read; the median has {middle:.0f}"
    figures: Figures = {"share": share, "texts": len(lengths), "length": most or 0, "median": middle}
    advice = f"set model.{side}_length higher" + (", or cut documents with `segments`" if side == "document" else "")
    shipped = getattr(run.recipe.models.of(run.recipe.model).full, f"{side}_length")
    if share > MOST_CUT[side] and (most or 0) >= (shipped or 0):
        return CheckResult(
            "unknown", f"{line}; the model as shipped reads no more, so both are limited", figures, advice
        )
    return CheckResult.of(share > MOST_CUT[side], line, figures, advice)


def _sampled(run: FinishedRun, side: Side) -> list[str]:
    collection = run.collection(training_sets(run)[0])
    if side == "document":
        return collection.corpus.contents(sample(len(collection.corpus), "documents"))
    texts = collection.queries(TRAIN).texts
    return [texts[row] for row in sample(len(texts), "texts of queries").tolist()]


def _lengths(folder: Path, side: Side, texts: Sequence[str]) -> NDArray[np.int64]:
    """The tokens of each text, special ones included: int64 [n]. Raises ModelError without a fast tokenizer."""
    from tokenizers import Tokenizer

    folders = [*model_files.module_folders(folder), folder]
    paths = [at / "tokenizer.json" for at in sorted(folders, key=lambda at: not at.name.startswith(side))]
    path = next((each for each in paths if each.is_file()), None)
    if path is None:
        raise ModelError(f"model {folder}: has no tokenizer.json, by which texts could be counted")
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    blocks = (tokenizer.encode_batch(texts[start : start + _AT_ONCE]) for start in range(0, len(texts), _AT_ONCE))
    return np.array([len(encoded.ids) for block in blocks for encoded in block], np.int64)


def unused_prompts(run: FinishedRun, _: str) -> CheckResult:
    """Prompts that the start model declares and the recipe does not use; or that training changed."""
    start = run.recipe.models.of(run.recipe.model)
    used, problems = start.full, []
    declared = {name: text for name, text in start.contract.prompts.items() if text}
    if declared and not (used.query_prompt or used.document_prompt):
        problems.append(f"the model declares the prompts {', '.join(declared)}, and the recipe uses none")
    fine = "the model declares no prompts, and none are used"
    if used.query_prompt or used.document_prompt:
        fine = f"prompts are used: {used.query_prompt!r} for queries, {used.document_prompt!r} for documents"
    if layout.MODEL_FOLDER in run.recipe.outputs:
        trained = run.model()[1]
        problems += [
            f"the {side}_prompt of the trained model is {getattr(trained, f'{side}_prompt')!r}, that of the start "
            f"model {getattr(used, f'{side}_prompt')!r}"
            for side in _SIDES
            if getattr(trained, f"{side}_prompt") != getattr(used, f"{side}_prompt")
        ]
    return CheckResult.of(
        bool(problems),
        "; ".join(problems) or fine,
        {"declared": len(declared), "query_prompt": used.query_prompt, "document_prompt": used.document_prompt},
        "leave model.query_prompt and model.document_prompt out, so that the model's own are used, or choose one by "
        "name (`{name: NAME}`); train and search with the same",
    )


def near_copies(run: FinishedRun, stage: str) -> CheckResult:
    """The share of the first 20 negatives of a query whose text nearly equals that of a positive of it."""
    mined, copies, count = run.mined(stage), 0, 0
    near = configure("filters", PluginSetting("near-copies", {}))
    corpus = run.collection(run.dataset_of(stage)).corpus
    texts = SimpleNamespace(documents=lambda doc_ids: corpus.documents_at(corpus.rows(doc_ids)))
    for row in mined.negatives:
        listed = RankedList(row.negatives[:_EACH], row.scores[:_EACH])
        candidates = Candidates(row.query_id, row.positives, {"": listed}, corpus.doc_ids)
        [reasons] = near.reasons([candidates], texts)
        copies, count = copies + len(reasons), count + len(listed.doc_ids)
    share = copies / max(count, 1)
    return CheckResult.of(
        share > MOST_COPIES,
        f"{share:.1%} of {count:,} negatives nearly equal a positive of their query in words",
        {"share": share, "negatives": count, "copies": copies},
        "these are wrong labels: mine with the filter near-copies (`filters: [near-copies]`)",
    )


def above_positive(run: FinishedRun, stage: str) -> CheckResult:
    """The share of negatives with a higher score than the best positive of their query, where the run lists one."""
    compared, above = 0, 0
    for row, ranked in _listed(run, stage):
        best = np.nan_to_num(scores_of(row.positives, ranked), nan=-np.inf).max(initial=-np.inf)
        scores = scores_of(row.negatives, ranked)
        if np.isfinite(best):
            compared += int(np.isfinite(scores).sum())
            above += int((scores > best).sum())
    if not compared:
        return CheckResult("unknown", "no negative is in a list that has a positive too, so that none can be compared")
    share = above / compared
    return CheckResult.of(
        share > MOST_ABOVE,
        f"{share:.1%} of {compared:,} negatives score above the best positive of their query, by the run mined from",
        {"share": share, "negatives": compared, "above": above},
        "many may be relevant and not labelled: look at some with `hardneg browse`; then mine with pos-percent, "
        "max-score or denoised, deeper by a window, or have a reranker or judge filter them",
    )


def hidden_positives(run: FinishedRun, stage: str) -> CheckResult:
    """The share of queries without a positive in the list that was mined from."""
    rows, lists = _listed(run, stage), run.mined(stage).lists.values()
    depth = max((len(ranked.doc_ids) for ranked in lists), default=0)
    if not depth:
        return CheckResult("unknown", f"{stage} has no run that it mines from")
    hidden = sum(not np.isfinite(scores_of(row.positives, ranked)).any() for row, ranked in rows)
    share = hidden / max(len(rows), 1)
    return CheckResult.of(
        share > MOST_HIDDEN,
        f"{share:.1%} of {len(rows):,} training queries have no positive in the first {depth:,} of the run mined from",
        {"share": share, "queries": len(rows), "depth": depth},
        "the model is not yet mistaking these negatives for the positive: train on in-batch negatives first, or begin "
        "with a better model, and mine again from that; check that labels and documents belong together",
    )


def seen_documents(run: FinishedRun, stage: str) -> CheckResult:
    """The share of negatives that are relevant to queries of another split, as mining has counted them."""
    facts = run.artifact(stage).facts
    count = facts.get("negatives", 0)
    counts = {name.removeprefix(_SEEN): int(seen) for name, seen in facts.items() if name.startswith(_SEEN)}
    if not counts or not count:
        return CheckResult("unknown", "mining has counted no positives of other splits")
    parts = [f"{seen / count:.1%} are relevant to queries of {split}" for split, seen in counts.items()]
    return CheckResult.of(
        max(counts.values()) > MOST_SEEN * count,
        f"of {count:,} negatives {', '.join(parts)}",
        {"negatives": count, **counts},
        "training pushes these documents away, and they are what is measured: leave them out by the filter documents "
        "(`filters: [{name: documents, of: train}]`)",
    )


def _listed(run: FinishedRun, stage: str) -> list[tuple[Negatives, RankedList]]:
    mined = run.mined(stage)
    return [(row, mined.lists.get(row.query_id, _NOT_LISTED)) for row in mined.negatives]


@dataclass(frozen=True)
class Check:
    """One check. subjects: what of a run it is made of, one result each; lacking: why there may be none."""

    name: str
    find: Callable[[FinishedRun, Any], CheckResult]
    subjects: Callable[[FinishedRun], Sequence[str]]
    lacking: str = ""

    def results(self, run: FinishedRun) -> Iterator[CheckResult]:
        """One a subject, unknown where something that it reads is missing or damaged."""
        subjects = self.subjects(run)
        if not subjects:
            yield CheckResult("unknown", self.lacking, check=self.name)
        for subject in subjects:
            try:
                result = self.find(run, subject)
            except (HardnegError, OSError) as error:
                result = CheckResult("unknown", f"could not be checked: {error}")
            yield replace(result, check=self.name, subject=subject)


_NO_NEGATIVES = "the recipe has no stage that mines"
_mined, _trainings = methodcaller("stages", "mine"), methodcaller("stages", *TRAININGS)
CHECKS = (
    Check("outcome", outcome, trained_rows, "the recipe evaluates no model that it trains"),
    Check("near copies", near_copies, _mined, _NO_NEGATIVES),
    Check("above the positive", above_positive, _mined, _NO_NEGATIVES),
    Check("hidden positives", hidden_positives, _mined, _NO_NEGATIVES),
    Check("seen documents", seen_documents, _mined, _NO_NEGATIVES),
    Check("shared queries", shared_queries, training_sets),
    Check("texts cut", cut_texts, lambda run: _SIDES),
    Check("prompts", unused_prompts, lambda run: [""]),
    Check("learning curve", learning_curve, _trainings, "the recipe trains no encoder"),
    Check("collapse", collapse, trained_indexes, "the recipe encodes no index with a model that it trains"),
)


@dataclass(frozen=True)
class Diagnosis:
    """What all checks say of a run, in their order."""

    results: tuple[CheckResult, ...]

    @property
    def suspect(self) -> tuple[CheckResult, ...]:
        """Those that may be why."""
        return tuple(result for result in self.results if result.state == "suspect")

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON holds it."""
        return {"results": [asdict(result) for result in self.results]}


def diagnose(folder: str | Path, store: str | Path | None = None) -> Diagnosis:
    """Checks why the training of a finished run did not help, or made things worse; nothing is written.

    Args:
        folder: the run folder of a finished recipe.
        store: where its artifacts are; by default the usual store.

    Raises:
        DataError: it is no run folder, or its lock file is damaged.
        RecipeError: the recipe is not one of this hardneg's.
    """
    run = FinishedRun.open(argument_values.file_path(folder, "folder"), usual_store(store))
    return Diagnosis(tuple(result for check in CHECKS for result in check.results(run)))
