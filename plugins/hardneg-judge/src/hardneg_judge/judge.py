"""Verb `judge`: mined negatives without those that judges find relevant, which can become positives."""

import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from hardneg.plugin import (
    ArtifactInput,
    BlockResult,
    DataError,
    Facts,
    ModelSpec,
    Name,
    Negatives,
    PluginSetting,
    RecipeView,
    Reference,
    Reranker,
    Row,
    Sizes,
    StageBlocks,
    StageContext,
    StageSpec,
    StoredCollection,
    Task,
    Trait,
    atomic_write,
    join_negatives,
    layout,
    marked_references,
    negatives_files,
    open_collection,
    open_queries,
    own_queries,
    qrels_files,
    source_of,
)
from hardneg_judge.chat_filter import ChatFilter
from hardneg_judge.judging import Judged, Outcome, blocks, cut, judged
from hardneg_judge.levels import PAIRS, Level, Opened

if TYPE_CHECKING:
    from hardneg.plugin import Section

JUDGEMENTS = "judgements.tsv.gz"
_COLUMNS = ("query_id", "doc_id", "flag", "decide", "relevant")


class Judge(StageSpec):
    """Has mined negatives judged, and takes those away that are relevant: they are false negatives.

    Source: Thakur, Zhang, Ma and Lin, Fixing Data That Hurts Performance: Cascading LLMs to Relabel Hard Negatives for
    Robust Information Retrieval (2025, arXiv 2505.16967): one judge flags, a dearer one decides on what is flagged; a
    query, its false negatives, or neither is dropped, and in the last case they become positives.

    negatives: the stage that mined them. split: that of their queries. depth: how many of a query are judged, the first
    ones; those after are left out. flag: the first judge, where there are two. decide: the judge whose word counts.
    outcome: `drop-negative`, `drop-query` or `positive`.
    """

    version = 2
    artifact_type = "negatives"
    purpose = "find the negatives that are relevant after all"
    needs_dataset = True
    every_process = True
    stage: Literal["judge"]
    negatives: Annotated[Name, Reference(("negatives",), passes=(Trait.PSEUDO_POSITIVES, Trait.OWN_QUERIES))]
    split: Name = "train"
    depth: int = Field(default=ChatFilter.depth, gt=0)
    flag: Level | None = None
    decide: Level
    outcome: Outcome = "drop-negative"

    @property
    def levels(self) -> Mapping[str, Level]:
        """The judges in the order in which they are asked."""
        both = {"flag": self.flag, "decide": self.decide}
        return {name: level for name, level in both.items() if level is not None}

    def references(self) -> Iterator[tuple[str, str, Reference]]:
        """The negatives, and the rerankers of both judges."""
        yield from super().references()
        for name, level in self.levels.items():
            yield from ((f"{name}.{path}", target, need) for path, target, need in marked_references(level))

    def plugins(self) -> Iterator[tuple[str, str, PluginSetting]]:
        """Those of both judges."""
        for name, level in self.levels.items():
            if level.plugin is not None:
                yield f"{name}.plugin", "rerankers", level.plugin

    def identity(self) -> dict[str, Any]:
        """Of the judges, from which scores on they find a passage relevant."""
        own = {name: getattr(self, name) for name in ("split", "depth", "outcome")}
        return {**own, **{name: level.relevant_from for name, level in self.levels.items()}}

    def problems(self, recipe: RecipeView) -> Iterator[str]:
        """Negatives of another split; scores that no passage can have, or that every one has."""
        for name, level in self.levels.items():
            best = getattr(recipe.plugin(f"{name}.plugin"), "best", None)
            if best is not None and not 0 < level.relevant_from <= best:
                message = f"{level.relevant_from:g} is not above 0 and at most {best:g}, the best score"
                yield f"{name}.relevant_from: {message}; name a score that tells passages apart"
        mined = getattr(recipe.stages.get(self.negatives), "split", self.split)
        if mined != self.split and Trait.OWN_QUERIES not in recipe.traits(self.negatives):
            yield f"split: {self.negatives!r} is of split {mined}, not {self.split}; say split: {mined}"

    def traits(self, recipe: RecipeView) -> Mapping[str, str]:
        """Also positives that no person judged, where that is what becomes of relevant negatives."""
        own: dict[str, str] = {Trait.PSEUDO_POSITIVES: recipe.name} if self.outcome == "positive" else {}
        return {**super().traits(recipe), **own}

    def network(self, recipe: RecipeView) -> ModelSpec | None:
        """That of the first judge that is a plugin with one."""
        sources = (source_of(recipe.plugin(f"{name}.plugin")) for name in self.levels)
        return next(filter(None, sources), None)

    def estimate(self, sizes: Sizes) -> Row:
        """All pairs, which the first judge reads."""
        pairs = sizes.queries(self.split) * self.depth
        return Row(pairs, "pairs", pairs * 60)

    def publishes(self, recipe: RecipeView) -> Mapping[str, str]:
        """What was said of each pair, under the stage's name."""
        return {f"judgements/{recipe.name}.tsv.gz": JUDGEMENTS}

    def sections(self, sources: Mapping[str, ArtifactInput]) -> "list[Section]":
        """What the judges found, and what they took."""
        from hardneg_judge.report import judging_section

        return [judging_section(sources)]

    def blocks(self, context: "StageContext[Judge]", first: bool = True) -> "JudgedBlocks":
        """Blocks of queries."""
        collection, source = open_collection(context.inputs["dataset"]), context.inputs["negatives"]
        queries = own_queries(source) or open_queries(context, collection, self.split)
        texts = dict(zip(queries.query_ids, queries.texts, strict=True))
        mined, step = negatives_files.read_negatives(source.folder / layout.NEGATIVES), max(1, PAIRS // self.depth)
        if strange := next((name for name in mined.query_ids if name not in texts), None):
            message = f"query {strange!r} of {source.name} is not in split {self.split}"
            raise DataError(f"{context.name}: {message}: name the split that was mined")
        sizes = [len(mined[start : start + step]) for start in range(0, len(mined), step)]
        opened: dict[str, Any] = {"collection": collection, "mined": mined, "texts": texts, "step": step}
        return JudgedBlocks(context, sizes, "judging", **opened, hidden=qrels_files.positives(collection.withheld()))


@dataclass(frozen=True)
class JudgedBlocks(StageBlocks):
    """A judging at work: what it reads; step: queries of a block. facts: what the block at hand has counted."""

    collection: StoredCollection = field(kw_only=True)
    mined: Sequence[Negatives] = field(kw_only=True)
    texts: Mapping[str, str] = field(kw_only=True)
    hidden: Mapping[str, Sequence[str]] = field(kw_only=True)
    step: int = field(kw_only=True)
    facts: Counter[str] = field(default_factory=Counter)

    def make(self, numbers: Sequence[int], task: Task) -> Iterator[tuple[int, BlockResult]]:
        """What is left of each block, what was dropped, what was said of each pair, and what servers were asked."""
        with ExitStack() as stack, TemporaryDirectory() as folder:
            levels = _opened(self.context, stack) if numbers else {}
            for number in numbers:
                self.facts.clear()
                before, lines = _counts(levels), io.BytesIO()
                mined = self.mined[number * self.step : (number + 1) * self.step]
                names = [Path(folder) / layout.NEGATIVES, Path(folder) / layout.DROPPED]
                left = self.left(_written(self.judged(mined, levels), lines, task))
                negatives_files.write_negatives(names[0], negatives_files.recorded(left, names[1]))
                parts = {path.name: path.read_bytes() for path in names if path.exists()}
                names[1].unlink(missing_ok=True)
                asked = {name: count - before.get(name, 0) for name, count in _counts(levels).items()}
                yield number, BlockResult({**parts, JUDGEMENTS: lines.getvalue()}, {**self.facts, **asked})

    def finish(self) -> Facts:
        """Writes what is left and dropped, and what was said of each pair. Raises DataError where no query is left."""
        count, folder = len(self.sizes), self.context.folder
        facts = {"queries": 0, "negatives": 0, **self.store.facts(count)}
        if not facts["queries"]:
            problem = f"of {len(self.mined)} queries none is left: every one has a relevant negative"
            raise DataError(f"{self.context.name}: {problem}")
        joined = join_negatives(self.store.texts(layout.NEGATIVES, count), self.store.texts(layout.DROPPED, count))
        negatives_files.write_negatives(
            folder / layout.NEGATIVES, negatives_files.recorded(joined, folder / layout.DROPPED)
        )
        with atomic_write.replacing(folder / JUDGEMENTS) as file:
            file.write("\t".join(_COLUMNS).encode() + b"\n")
            file.writelines(self.store.texts(JUDGEMENTS, count))
        if (queries := self.context.inputs["negatives"].folder / layout.QUERIES).exists():
            atomic_write.link_file(queries, folder / layout.QUERIES)
        return {name: round(value, 6) if name.endswith(": cost") else value for name, value in facts.items()}

    def judged(self, mined: Sequence[Negatives], levels: Mapping[str, Opened]) -> Iterator[Judged]:
        """What the judges say of each query's negatives."""
        spec, facts = self.context.spec, self.facts
        pairs = min(level.at_once for level in levels.values())
        for block in blocks(cut(mined, spec.depth, facts), spec.depth, pairs):
            for item in judged(block, self.texts, self.collection.corpus, levels.get("flag"), levels["decide"]):
                self._count(item, levels)
                yield item

    def _count(self, item: Judged, levels: Mapping[str, Opened]) -> None:
        facts = self.facts
        facts["pairs"] += len(item.relevant)
        if "flag" in levels:
            facts["flagged"] += int((~(item.flag < levels["flag"].relevant_from)).sum())
        facts["relevant"] += int(item.relevant.sum())
        if item.unread.any():
            facts["dropped as unreadable"] += int(item.unread.sum())
        hidden = self.hidden.get(item.mined.query_id, ())
        known = [relevant for name, relevant in zip(item.mined.negatives, item.relevant, strict=True) if name in hidden]
        if self.hidden:
            facts["hidden positives"] += len(known)
            facts["hidden positives found"] += int(sum(known))

    def left(self, judged: Iterator[Judged]) -> Iterator[Negatives]:
        """What is left of each query."""
        facts, outcome = self.facts, self.context.spec.outcome
        for item in judged:
            if (left := item.left(outcome)) is None:
                facts["queries dropped"] += 1
                continue
            facts["queries"] += 1
            facts["negatives"] += len(left.negatives)
            facts["queries without negatives"] += not left.negatives
            facts["made positives"] += len(left.positives) - len(item.mined.positives)
            yield left


def _opened(context: StageContext[Judge], stack: ExitStack) -> dict[str, Opened]:
    """The judges, ready; those that ask a server are closed with the stack."""
    opened = {}
    for name, level in context.spec.levels.items():
        source = context.inputs.get(f"{name}.reranker")
        plugin = context.plugin(f"{name}.plugin", Reranker) if source is None else source.plugin("reranker", Reranker)
        folder = None if source is None else source.folder / layout.MODEL_FOLDER
        opened[name] = Opened.of(f"{context.name}.{name}", level, plugin, folder, context.device)
        stack.enter_context(opened[name].open)
    return opened


def _written(judged: Iterator[Judged], file: IO[bytes], task: Task) -> Iterator[Judged]:
    """Writes a line for each pair as it goes by."""
    for item in judged:
        rows = zip(item.mined.negatives, item.flag, item.decide, item.relevant, strict=True)
        lines = [
            f"{item.mined.query_id}\t{doc_id}\t{_shown(flag)}\t{_shown(decide)}\t{int(relevant)}\n"
            for doc_id, flag, decide, relevant in rows
        ]
        file.write("".join(lines).encode())
        task.advance()
        yield item


def _shown(score: float) -> str:
    return "" if score != score else f"{score:.6g}"


def _counts(levels: Mapping[str, Opened]) -> dict[str, float]:
    """What was asked of servers, level by level, and what it costs."""
    facts: dict[str, float] = {}
    for name, level in levels.items():
        facts |= {f"{name}: {what}": count for what, count in level.counts.items() if count}
        facts |= {f"{name}: cost": level.cost} if level.counts else {}
    return facts
