"""Verb `judge`, which removes mined negatives that are judged relevant, or turns them into positives."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator

import hardneg.plugin as hp
from hardneg_judge.chat import RELEVANT, UNREADABLE, Chat, ChatFilter

Outcome = Literal["drop-negative", "drop-query", "positive"]
Scores = NDArray[np.float32]
Rows = Sequence[NDArray[np.bool_]]
PAIRS = 4096


class Level(BaseModel):
    """A judge, set by either `reranker` or `plugin`. relevant_from: the lowest score that counts as relevant.

    reranker: the stage that trained the judge. plugin: a reranker that no stage trains, such as `chat`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    reranker: Annotated[hp.fields.Name | None, hp.fields.Reference(("reranker",))] = None
    plugin: Annotated[hp.fields.Setting | None, hp.fields.PluginKind("rerankers")] = None
    relevant_from: float = Field(default=0.5, allow_inf_nan=False)

    @model_validator(mode="after")
    def _complete(self) -> "Level":
        if (self.reranker is None) == (self.plugin is None):
            raise ValueError("set either reranker (a stage that trains one) or plugin")
        return self


class Opened:
    """An opened judge. `rerank` yields the scores of each request's passages; nan means that there is no verdict.

    at_once: number of pairs per block, enough for full batches but few enough to report progress. counts: numbers of
    requests, tokens and answers of a server; empty for a network on this machine.
    """

    def __init__(
        self,
        name: str,
        level: Level,
        plugin: hp.protocols.Reranker,
        folder: Path | None,
        device: str | None,
        stack: ExitStack,
    ) -> None:
        """Open a plugin. folder: the network, if a stage trained it. stack: closes the session, if there is one."""
        self.name, self.relevant_from = name, level.relevant_from
        scorer: Any = plugin
        if isinstance(plugin, hp.protocols.TrainableReranker):
            scorer = hp.pair_scoring.PairScorer.opened(plugin, folder, device)
        elif isinstance(plugin, Chat):
            scorer = stack.enter_context(plugin.asking(judging=True))
        self.rerank = scorer.rerank
        self.at_once = int(getattr(scorer, "at_once", PAIRS))
        self.counts: Mapping[str, int] = getattr(scorer, "counts", Counter[str]())


@dataclass(frozen=True)
class Judged:
    """A query's first n mined negatives with the judges' verdicts.

    flag, decide: float32 [n], the scores of the first and the second judge, nan where missing.
    relevant: bool [n], whether judged relevant. unread: bool [n], whether the second judge was asked but gave no score.
    """

    mined: hp.Negatives
    flag: Scores
    decide: Scores
    relevant: NDArray[np.bool_]
    unread: NDArray[np.bool_]

    def left(self, outcome: Outcome) -> hp.Negatives | None:
        """Return the remaining negatives and a record of the dropped ones; None if `outcome` drops the query."""
        if outcome == "drop-query" and self.relevant.any():
            return None
        item, dropped = self.mined, self.relevant | self.unread
        out, stay = (np.flatnonzero(mask).astype(np.int32) for mask in (dropped, ~dropped))
        relevant = [item.negatives[i] for i in np.flatnonzero(self.relevant).tolist()]
        positives = [*item.positives, *relevant] if outcome == "positive" else item.positives
        reasons = [RELEVANT if self.relevant[i] else UNREADABLE for i in out]
        decisive = np.where(np.isnan(self.decide), self.flag, self.decide)[out]
        drops = hp.records.Drops(
            len(dropped), [item.negatives[i] for i in out.tolist()], out + 1, reasons, decisive, stay + 1
        )
        scores = np.asarray(item.scores, np.float32)[stay]
        remaining = [item.negatives[i] for i in stay.tolist()]
        return hp.Negatives(item.query_id, positives, remaining, scores, dict(Counter(reasons)), drops)


def judged(
    block: Sequence[hp.Negatives], texts: Mapping[str, str], corpus: hp.Corpus, flag: Opened | None, decide: Opened
) -> list[Judged]:
    """Judge each query's negatives, in order. `decide` scores only pairs that `flag` flags or cannot score."""
    rows = [np.ones(len(item.negatives), bool) for item in block]
    flags = [np.full(len(item.negatives), np.nan, np.float32) for item in block]
    if flag is not None:
        flags = _scores(flag, block, rows, texts, corpus)
        rows = [~(scores < flag.relevant_from) for scores in flags]  # also those without a score
    decided = _scores(decide, block, rows, texts, corpus)
    return [
        Judged(item, first, second, second >= decide.relevant_from, wanted & np.isnan(second))
        for item, first, second, wanted in zip(block, flags, decided, rows, strict=True)
    ]


def _scores(
    level: Opened, block: Sequence[hp.Negatives], rows: Rows, texts: Mapping[str, str], corpus: hp.Corpus
) -> list[Scores]:
    """Return the scores of each query's negatives to judge, nan for the others: float32 [n]."""
    pairs = list(zip(block, rows, strict=True))

    def requests() -> Iterator[tuple[str, Sequence[str]]]:
        for item, wanted in pairs:
            doc_ids = [item.negatives[i] for i in np.flatnonzero(wanted).tolist()]
            found = corpus.known_rows(doc_ids, "negative", "use negatives mined from this corpus")
            yield texts[item.query_id], corpus.contents(found)

    answers, scored = level.rerank(requests()), []
    for item, wanted in pairs:
        scores, given = np.full(len(wanted), np.nan, np.float32), next(answers, ())
        if len(given) != wanted.sum():
            counts = f"{len(given)} scores for the {wanted.sum()} passages of query {item.query_id}"
            problem = f"the reranker returned {counts}"
            raise hp.errors.PluginError(f"{level.name}: {problem}; it must return one per passage, in order")
        scores[wanted] = given
        scored.append(scores)
    return scored


JUDGEMENTS = "judgements.tsv.gz"
_COLUMNS = ("query_id", "doc_id", "flag", "decide", "relevant")
_SHOWN = ("pairs", "flagged", "relevant", "queries dropped", "negatives", "made positives")
_HIDDEN = ("hidden positives", "hidden positives found")
_EXPLAINED = (
    "Pairs of a query and a mined negative; flagged pairs go to the second judge. Hidden positives are positives that "
    "the dataset withholds and that were mined as negatives."
)


class Judge(hp.stages.StageSpec):
    """Judges mined negatives and removes the relevant ones, which are false negatives.

    Source: Thakur, Zhang, Ma and Lin, Fixing Data That Hurts Performance: Cascading LLMs to Relabel Hard Negatives for
    Robust Information Retrieval (2025, arXiv 2505.16967): a cheap judge flags pairs and a more expensive one decides on
    them; false negatives are dropped, dropped with their query, or made positives.

    negatives: the stage that mined the negatives. split: split of the queries. depth: number of negatives to judge per
    query, from the top; the others are dropped. flag: an optional first judge; `decide` then scores only what it flags.
    decide: the deciding judge. outcome: what happens to a relevant negative: `drop-negative`, `drop-query`, `positive`.
    """

    version = 2
    artifact_type = "negatives"
    purpose = "find mined negatives that are relevant"
    needs_dataset = True
    every_process = in_blocks = True
    stage: Literal["judge"]
    negatives: Annotated[
        hp.fields.Name,
        hp.fields.Reference(("negatives",), passes=(hp.fields.Trait.PSEUDO_POSITIVES, hp.fields.Trait.OWN_QUERIES)),
    ]
    split: hp.fields.Name = "train"
    depth: int = Field(default=ChatFilter.depth, gt=0)
    flag: Level | None = None
    decide: Level
    outcome: Outcome = "drop-negative"

    @property
    def levels(self) -> Mapping[str, Level]:
        """The stage's judges by field, `flag` (if set) before `decide`."""
        both = {"flag": self.flag, "decide": self.decide}
        return {name: level for name, level in both.items() if level is not None}

    def identity(self) -> dict[str, Any]:
        """Return the options for the artifact key, with each judge's `relevant_from`. Judges are added separately."""
        own = {name: getattr(self, name) for name in ("split", "depth", "outcome")}
        return {**own, **{name: level.relevant_from for name, level in self.levels.items()}}

    def problems(self, recipe: hp.stages.RecipeView) -> Iterator[str]:
        """Yield a message if the negatives are of another split, or if a threshold is out of the range of scores."""
        for name, level in self.levels.items():
            best = getattr(recipe.plugin(f"{name}.plugin"), "best", None)
            if best is not None and not 0 < level.relevant_from <= best:
                message = f"must be above 0 and at most {best:g}, the best score, not {level.relevant_from:g}"
                yield f"{name}.relevant_from: {message}"
        mined = getattr(recipe.stages.get(self.negatives), "split", self.split)
        if mined != self.split and hp.fields.Trait.OWN_QUERIES not in recipe.traits(self.negatives):
            yield f"split: {self.negatives!r} has queries of split {mined}, not {self.split}; set split: {mined}"

    def traits(self, recipe: hp.stages.RecipeView) -> Mapping[str, str]:
        """Return the traits of the negatives, and pseudo-positives if relevant negatives become positives."""
        own: dict[str, str] = {hp.fields.Trait.PSEUDO_POSITIVES: recipe.name} if self.outcome == "positive" else {}
        return {**super().traits(recipe), **own}

    def estimate(self, sizes: hp.stages.Sizes) -> hp.stages.Row:
        """Return the number of pairs for the first judge, `depth` per query, and their disk space."""
        pairs = sizes.queries(self.split) * self.depth
        return hp.stages.Row(int(pairs), "pairs", int(pairs) * 60)

    def publishes(self, recipe: hp.stages.RecipeView) -> Mapping[str, str]:
        """Return the file of judgements, one line per pair, published under the stage's name."""
        return {f"judgements/{recipe.name}.tsv.gz": JUDGEMENTS}

    def sections(self, sources: Mapping[str, hp.stages.ArtifactInput]) -> "list[hp.tables.Section]":
        """Return a table of the judges' counts, one row per artifact."""
        facts = {label: source.facts for label, source in sources.items()}
        names = [*_SHOWN, *(_HIDDEN if any(_HIDDEN[0] in each for each in facts.values()) else ())]
        rows = [[label, *(f"{each.get(name, 0):,}" for name in names)] for label, each in facts.items()]
        return [hp.tables.Section("Judged negatives", [hp.Table(("judged", *names), rows)], _EXPLAINED)]

    def make(self, context: "hp.StageContext[Judge]") -> "JudgedBlocks":
        """Return the work in blocks of queries. Raises DataError if a query of the negatives is not in the split."""
        collection, source = hp.stage_work.open_collection(context.inputs["dataset"]), context.inputs["negatives"]
        queries = hp.stage_work.own_queries(source) or hp.stage_work.open_queries(context, collection, self.split)
        texts = dict(zip(queries.query_ids, queries.texts, strict=True))
        mined, step = (
            hp.negatives_files.read_negatives(source.folder / hp.layout.NEGATIVES),
            max(1, PAIRS // self.depth),
        )
        if strange := next((name for name in mined.query_ids if name not in texts), None):
            message = f"query {strange!r} of {source.name} is not in split {self.split}"
            raise hp.errors.DataError(f"{context.name}: {message}; set split to the one that was mined")
        sizes = [len(mined[start : start + step]) for start in range(0, len(mined), step)]
        opened: dict[str, Any] = {"collection": collection, "mined": mined, "texts": texts, "step": step}
        return JudgedBlocks(context, sizes, "judging", **opened, hidden=hp.qrels_files.positives(collection.withheld()))


@dataclass(frozen=True)
class JudgedBlocks(hp.stage_work.StageBlocks):
    """The work of stage `judge` in blocks of queries. hidden: withheld positives by query. step: queries per block."""

    collection: hp.StoredCollection = field(kw_only=True)
    mined: Sequence[hp.Negatives] = field(kw_only=True)
    texts: Mapping[str, str] = field(kw_only=True)
    hidden: Mapping[str, Sequence[str]] = field(kw_only=True)
    step: int = field(kw_only=True)

    def make(self, numbers: Sequence[int], task: hp.runtime.Task) -> Iterator[tuple[int, hp.block_store.BlockResult]]:
        """Judge the given blocks. Yield their numbers with remaining and dropped negatives, judgements and counts."""
        with ExitStack() as stack, TemporaryDirectory() as folder:
            levels = self._opened(stack) if numbers else {}
            path, dropped = Path(folder) / hp.layout.NEGATIVES, Path(folder) / hp.layout.DROPPED
            for number in numbers:
                before, lines, facts = _counts(levels), list[str](), Counter[str]()
                mined = self.mined[number * self.step : (number + 1) * self.step]
                left = self._left(mined, levels, facts, lines, task)
                hp.negatives_files.write_negatives(path, hp.negatives_files.recorded(left, dropped))
                parts = {each.name: each.read_bytes() for each in (path, dropped) if each.exists()}
                dropped.unlink(missing_ok=True)
                asked = {name: count - before.get(name, 0) for name, count in _counts(levels).items()}
                yield (
                    number,
                    hp.block_store.BlockResult({**parts, JUDGEMENTS: "".join(lines).encode()}, {**facts, **asked}),
                )

    def finish(self) -> hp.stages.Facts:
        """Write the remaining negatives, the dropped ones and the judgements. Raises DataError if no query remains."""
        count, folder = len(self.sizes), self.context.folder
        facts = {"queries": 0, "negatives": 0, **self.store.facts(count)}
        if not facts["queries"]:
            problem = f"all {len(self.mined)} queries were dropped because each has a relevant negative"
            raise hp.errors.DataError(f"{self.context.name}: {problem}; use outcome drop-negative")
        joined = hp.negatives_files.join_negatives(
            self.store.texts(hp.layout.NEGATIVES, count), self.store.texts(hp.layout.DROPPED, count)
        )
        hp.negatives_files.write_negatives(
            folder / hp.layout.NEGATIVES, hp.negatives_files.recorded(joined, folder / hp.layout.DROPPED)
        )
        with hp.stores.replacing(folder / JUDGEMENTS) as file:
            file.write("\t".join(_COLUMNS).encode() + b"\n")
            file.writelines(self.store.texts(JUDGEMENTS, count))
        if (queries := self.context.inputs["negatives"].folder / hp.layout.QUERIES).exists():
            hp.stores.link_file(queries, folder / hp.layout.QUERIES)
        return facts

    def _opened(self, stack: ExitStack) -> dict[str, Opened]:
        """Open the judges; the stack closes those of servers."""
        context, opened = self.context, dict[str, Opened]()
        folder: Path | None
        for name, level in context.spec.levels.items():
            source = context.inputs.get(f"{name}.reranker")
            plugin = context.plugins[f"{name}.plugin"] if source is None else source.plugins["reranker"]
            folder = None if source is None else source.folder / hp.layout.MODEL_FOLDER
            opened[name] = Opened(f"{context.name}.{name}", level, plugin, folder, context.device, stack)
        return opened

    def _left(
        self,
        mined: Sequence[hp.Negatives],
        levels: Mapping[str, Opened],
        facts: Counter[str],
        lines: list[str],
        task: hp.runtime.Task,
    ) -> Iterator[hp.Negatives]:
        """Yield the remaining negatives of each query; updates counts and appends a line per pair."""
        depth, corpus = self.context.spec.depth, self.collection.corpus
        step = max(1, min(level.at_once for level in levels.values()) // depth)
        for start in range(0, len(mined), step):
            block = mined[start : start + step]
            facts["negatives below the depth"] += sum(max(0, len(item.negatives) - depth) for item in block)
            first = [
                replace(item, negatives=item.negatives[:depth], scores=np.asarray(item.scores, np.float32)[:depth])
                for item in block
            ]
            for item in judged(first, self.texts, corpus, levels.get("flag"), levels["decide"]):
                self._count(item, levels, facts)
                rows = zip(item.mined.negatives, item.flag, item.decide, item.relevant, strict=True)
                for doc_id, flag, decide, relevant in rows:
                    given = "\t".join("" if score != score else f"{score:.6g}" for score in (flag, decide))
                    lines.append(f"{item.mined.query_id}\t{doc_id}\t{given}\t{int(relevant)}\n")
                task.advance()
                left = item.left(self.context.spec.outcome)
                facts["queries dropped"] += left is None
                if left is not None:
                    facts["queries"] += 1
                    facts["negatives"] += len(left.negatives)
                    facts["queries without negatives"] += not left.negatives
                    facts["made positives"] += len(left.positives) - len(item.mined.positives)
                    yield left

    def _count(self, item: Judged, levels: Mapping[str, Opened], facts: Counter[str]) -> None:
        facts["pairs"] += len(item.relevant)
        if "flag" in levels:
            facts["flagged"] += int((~(item.flag < levels["flag"].relevant_from)).sum())
        facts["relevant"] += int(item.relevant.sum())
        if item.unread.any():
            facts["dropped as unreadable"] += int(item.unread.sum())
        if self.hidden:
            hidden = self.hidden.get(item.mined.query_id, ())
            known = [doc_id in hidden for doc_id in item.mined.negatives]
            facts["hidden positives"] += sum(known)
            facts["hidden positives found"] += int(item.relevant[known].sum())


def _counts(levels: Mapping[str, Opened]) -> dict[str, int]:
    """Return the counts of requests to servers, with the judge in each name."""
    return {f"{name}: {what}": n for name, level in levels.items() for what, n in level.counts.items() if n}
