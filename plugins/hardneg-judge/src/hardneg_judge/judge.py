"""Verb `judge`: mined negatives without those that judges find relevant, which can become positives."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import Field

from hardneg.plugin import (
    BlockResult,
    Negatives,
    PluginSetting,
    StageBlocks,
    StoredCollection,
    Task,
    atomic_write,
    errors,
    fields,
    layout,
    model_specs,
    negatives_files,
    protocols,
    qrels_files,
    stage_context,
    stage_inputs,
    stage_spec,
)
from hardneg_judge.chat import ChatFilter
from hardneg_judge.judging import PAIRS, Judged, Level, Opened, Outcome, judged

if TYPE_CHECKING:
    from hardneg.plugin import Section

JUDGEMENTS = "judgements.tsv.gz"
_COLUMNS = ("query_id", "doc_id", "flag", "decide", "relevant")
_SHOWN = ("pairs", "flagged", "relevant", "queries dropped", "negatives", "made positives")
_HIDDEN = ("hidden positives", "hidden positives found")
_EXPLAINED = (
    "Pairs of a query and a mined negative; those that are flagged go to the second judge. Hidden positives are those "
    "that the dataset withholds, as far as they were mined as negatives."
)


class Judge(stage_spec.StageSpec):
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
    negatives: Annotated[
        fields.Name, fields.Reference(("negatives",), passes=(fields.Trait.PSEUDO_POSITIVES, fields.Trait.OWN_QUERIES))
    ]
    split: fields.Name = "train"
    depth: int = Field(default=ChatFilter.depth, gt=0)
    flag: Level | None = None
    decide: Level
    outcome: Outcome = "drop-negative"

    @property
    def levels(self) -> Mapping[str, Level]:
        """The judges in the order in which they are asked."""
        both = {"flag": self.flag, "decide": self.decide}
        return {name: level for name, level in both.items() if level is not None}

    def references(self) -> Iterator[tuple[str, str, fields.Reference]]:
        """The negatives, and the rerankers of both judges."""
        yield from super().references()
        for name, level in self.levels.items():
            yield from ((f"{name}.{path}", target, need) for path, target, need in fields.marked_references(level))

    def plugins(self) -> Iterator[tuple[str, str, PluginSetting]]:
        """Those of both judges."""
        for name, level in self.levels.items():
            if level.plugin is not None:
                yield f"{name}.plugin", "rerankers", level.plugin

    def identity(self) -> dict[str, Any]:
        """Of the judges, from which scores on they find a passage relevant."""
        own = {name: getattr(self, name) for name in ("split", "depth", "outcome")}
        return {**own, **{name: level.relevant_from for name, level in self.levels.items()}}

    def problems(self, recipe: stage_spec.RecipeView) -> Iterator[str]:
        """Negatives of another split; scores that no passage can have, or that every one has."""
        for name, level in self.levels.items():
            best = getattr(recipe.plugin(f"{name}.plugin"), "best", None)
            if best is not None and not 0 < level.relevant_from <= best:
                message = f"{level.relevant_from:g} is not above 0 and at most {best:g}, the best score"
                yield f"{name}.relevant_from: {message}; name a score that tells passages apart"
        mined = getattr(recipe.stages.get(self.negatives), "split", self.split)
        if mined != self.split and fields.Trait.OWN_QUERIES not in recipe.traits(self.negatives):
            yield f"split: {self.negatives!r} is of split {mined}, not {self.split}; say split: {mined}"

    def traits(self, recipe: stage_spec.RecipeView) -> Mapping[str, str]:
        """Also positives that no person judged, where that is what becomes of relevant negatives."""
        own: dict[str, str] = {fields.Trait.PSEUDO_POSITIVES: recipe.name} if self.outcome == "positive" else {}
        return {**super().traits(recipe), **own}

    def network(self, recipe: stage_spec.RecipeView) -> model_specs.ModelSpec | None:
        """That of the first judge that is a plugin with one."""
        sources = (stage_spec.source_of(recipe.plugin(f"{name}.plugin")) for name in self.levels)
        return next(filter(None, sources), None)

    def estimate(self, sizes: stage_spec.Sizes) -> stage_spec.Row:
        """All pairs for the first judge."""
        pairs = sizes.queries(self.split) * self.depth
        return stage_spec.Row(int(pairs), "pairs", int(pairs) * 60)

    def publishes(self, recipe: stage_spec.RecipeView) -> Mapping[str, str]:
        """What was said of each pair, under the stage's name."""
        return {f"judgements/{recipe.name}.tsv.gz": JUDGEMENTS}

    def sections(self, sources: Mapping[str, stage_context.ArtifactInput]) -> "list[Section]":
        """What the judges found, a row an artifact."""
        from hardneg.plugin import Section, Table

        facts = {label: source.facts for label, source in sources.items()}
        names = [*_SHOWN, *(_HIDDEN if any(_HIDDEN[0] in each for each in facts.values()) else ())]
        rows = [[label, *(f"{each.get(name, 0):,}" for name in names)] for label, each in facts.items()]
        return [Section("Judged negatives", [Table(("judged", *names), rows)], _EXPLAINED)]

    def blocks(self, context: "stage_context.StageContext[Judge]", first: bool = True) -> "JudgedBlocks":
        """Blocks of queries."""
        collection, source = stage_inputs.open_collection(context.inputs["dataset"]), context.inputs["negatives"]
        queries = stage_inputs.own_queries(source) or stage_inputs.open_queries(context, collection, self.split)
        texts = dict(zip(queries.query_ids, queries.texts, strict=True))
        mined, step = negatives_files.read_negatives(source.folder / layout.NEGATIVES), max(1, PAIRS // self.depth)
        if strange := next((name for name in mined.query_ids if name not in texts), None):
            message = f"query {strange!r} of {source.name} is not in split {self.split}"
            raise errors.DataError(f"{context.name}: {message}: name the split that was mined")
        sizes = [len(mined[start : start + step]) for start in range(0, len(mined), step)]
        opened: dict[str, Any] = {"collection": collection, "mined": mined, "texts": texts, "step": step}
        return JudgedBlocks(context, sizes, "judging", **opened, hidden=qrels_files.positives(collection.withheld()))


@dataclass(frozen=True)
class JudgedBlocks(StageBlocks):
    """A judging at work: what it reads; step: queries of a block."""

    collection: StoredCollection = field(kw_only=True)
    mined: Sequence[Negatives] = field(kw_only=True)
    texts: Mapping[str, str] = field(kw_only=True)
    hidden: Mapping[str, Sequence[str]] = field(kw_only=True)
    step: int = field(kw_only=True)

    def make(self, numbers: Sequence[int], task: Task) -> Iterator[tuple[int, BlockResult]]:
        """What is left of each block, what was dropped, what was said of each pair, and what servers were asked."""
        with ExitStack() as stack, TemporaryDirectory() as folder:
            levels = self._opened(stack) if numbers else {}
            path, dropped = Path(folder) / layout.NEGATIVES, Path(folder) / layout.DROPPED
            for number in numbers:
                before, lines, facts = _counts(levels), list[str](), Counter[str]()
                mined = self.mined[number * self.step : (number + 1) * self.step]
                left = self._left(mined, levels, facts, lines, task)
                negatives_files.write_negatives(path, negatives_files.recorded(left, dropped))
                parts = {each.name: each.read_bytes() for each in (path, dropped) if each.exists()}
                dropped.unlink(missing_ok=True)
                asked = {name: count - before.get(name, 0) for name, count in _counts(levels).items()}
                yield number, BlockResult({**parts, JUDGEMENTS: "".join(lines).encode()}, {**facts, **asked})

    def finish(self) -> stage_context.Facts:
        """Writes what is left and dropped, and what was said of each pair. Raises DataError where no query is left."""
        count, folder = len(self.sizes), self.context.folder
        facts = {"queries": 0, "negatives": 0, **self.store.facts(count)}
        if not facts["queries"]:
            problem = f"of {len(self.mined)} queries none is left: every one has a relevant negative"
            raise errors.DataError(f"{self.context.name}: {problem}")
        joined = negatives_files.join_negatives(
            self.store.texts(layout.NEGATIVES, count), self.store.texts(layout.DROPPED, count)
        )
        negatives_files.write_negatives(
            folder / layout.NEGATIVES, negatives_files.recorded(joined, folder / layout.DROPPED)
        )
        with atomic_write.replacing(folder / JUDGEMENTS) as file:
            file.write("\t".join(_COLUMNS).encode() + b"\n")
            file.writelines(self.store.texts(JUDGEMENTS, count))
        if (queries := self.context.inputs["negatives"].folder / layout.QUERIES).exists():
            atomic_write.link_file(queries, folder / layout.QUERIES)
        return facts

    def _opened(self, stack: ExitStack) -> dict[str, Opened]:
        """The judges, ready; those that ask a server are closed with the stack."""
        context, opened = self.context, dict[str, Opened]()
        folder: Path | None
        for name, level in context.spec.levels.items():
            source = context.inputs.get(f"{name}.reranker")
            plugin = (
                context.plugin(f"{name}.plugin", protocols.Reranker)
                if source is None
                else source.plugin("reranker", protocols.Reranker)
            )
            folder = None if source is None else source.folder / layout.MODEL_FOLDER
            opened[name] = Opened(f"{context.name}.{name}", level, plugin, folder, context.device, stack)
        return opened

    def _left(
        self,
        mined: Sequence[Negatives],
        levels: Mapping[str, Opened],
        facts: Counter[str],
        lines: list[str],
        task: Task,
    ) -> Iterator[Negatives]:
        """What is left of each query; counts, and a line for each pair."""
        depth, corpus = self.context.spec.depth, self.collection.corpus
        step = max(1, min(level.at_once for level in levels.values()) // depth)
        for start in range(0, len(mined), step):
            block = mined[start : start + step]
            facts["negatives behind the depth"] += sum(max(0, len(item.negatives) - depth) for item in block)
            first = [
                replace(item, negatives=item.negatives[:depth], scores=np.asarray(item.scores, np.float32)[:depth])
                for item in block
            ]
            for item in judged(first, self.texts, corpus, levels.get("flag"), levels["decide"]):
                self._count(item, levels, facts)
                rows = zip(item.mined.negatives, item.flag, item.decide, item.relevant, strict=True)
                for doc_id, flag, decide, relevant in rows:
                    said = "\t".join("" if score != score else f"{score:.6g}" for score in (flag, decide))
                    lines.append(f"{item.mined.query_id}\t{doc_id}\t{said}\t{int(relevant)}\n")
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
    """What was asked of servers, level by level."""
    return {f"{name}: {what}": n for name, level in levels.items() for what, n in level.counts.items() if n}
