"""Two levels of judges over mined negatives, and what becomes of relevant ones."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator

from hardneg.plugin import Corpus, Negatives, errors, fields, protocols, records
from hardneg_judge.chat import RELEVANT, UNREADABLE, Chat

Outcome = Literal["drop-negative", "drop-query", "positive"]
Scores = NDArray[np.float32]
Rows = Sequence[NDArray[np.bool_]]
PAIRS = 4096


class Level(BaseModel):
    """Who judges, and from which score on a passage is relevant.

    reranker: the stage that trained it, or plugin: one to take as it is, such as `chat`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    reranker: Annotated[fields.Name | None, fields.Reference(("reranker",))] = None
    plugin: fields.Setting | None = None
    relevant_from: float = Field(default=0.5, allow_inf_nan=False)

    @model_validator(mode="after")
    def _complete(self) -> "Level":
        if (self.reranker is None) == (self.plugin is None):
            raise ValueError("give reranker, the name of a stage that trains one, or plugin, one of them")
        return self


class Opened:
    """A level at work; `rerank` gives a score for each passage of each request, nan where it could not tell.

    at_once: pairs of a block, enough for full batches, and few enough that progress is told. counts: what was asked of
    a server; nothing of a network on this machine.
    """

    def __init__(
        self,
        name: str,
        level: Level,
        plugin: protocols.Reranker,
        folder: Path | None,
        device: str | None,
        stack: ExitStack,
    ) -> None:
        """A reranker of a stage (`folder`: its network's), or a plugin as it is; the stack closes it."""
        self.name, self.relevant_from = name, level.relevant_from
        scorer: Any = plugin
        if isinstance(plugin, protocols.TrainableReranker):
            from hardneg.plugin import pair_scoring

            scorer = pair_scoring.PairScorer.opened(plugin, folder, device)
        elif isinstance(plugin, Chat):
            scorer = stack.enter_context(plugin.asking(judging=True))
        self.rerank = scorer.rerank
        self.at_once = int(getattr(scorer, "at_once", PAIRS))
        self.counts: Mapping[str, int] = getattr(scorer, "counts", Counter[str]())


@dataclass(frozen=True)
class Judged:
    """A query's first n negatives as they were mined, each with what the judges said.

    flag, decide: float32 [n], the scores of the first and the second judge, nan where it was not asked, or gave none.
    relevant, unread: bool [n], what was found relevant, and of what the second judge gave no score.
    """

    mined: Negatives
    flag: Scores
    decide: Scores
    relevant: NDArray[np.bool_]
    unread: NDArray[np.bool_]

    def left(self, outcome: Outcome) -> Negatives | None:
        """What is left of the query; None where it goes with its relevant negatives."""
        if outcome == "drop-query" and self.relevant.any():
            return None
        item, dropped = self.mined, self.relevant | self.unread
        out, stay = (np.flatnonzero(mask).astype(np.int32) for mask in (dropped, ~dropped))
        relevant = [item.negatives[i] for i in np.flatnonzero(self.relevant).tolist()]
        positives = [*item.positives, *relevant] if outcome == "positive" else item.positives
        reasons = [RELEVANT if self.relevant[i] else UNREADABLE for i in out]
        decisive = np.where(np.isnan(self.decide), self.flag, self.decide)[out]
        drops = records.Drops(
            len(dropped), [item.negatives[i] for i in out.tolist()], out + 1, reasons, decisive, stay + 1
        )
        scores = np.asarray(item.scores, np.float32)[stay]
        kept = [item.negatives[i] for i in stay.tolist()]
        return Negatives(item.query_id, positives, kept, scores, dict(Counter(reasons)), drops)


def judged(
    block: Sequence[Negatives], texts: Mapping[str, str], corpus: Corpus, flag: Opened | None, decide: Opened
) -> list[Judged]:
    """What the judges say of some queries' negatives; the second is asked of those alone that the first flags."""
    rows = [np.ones(len(item.negatives), bool) for item in block]
    flags = [np.full(len(item.negatives), np.nan, np.float32) for item in block]
    if flag is not None:
        flags = _scores(flag, block, rows, texts, corpus)
        rows = [~(scores < flag.relevant_from) for scores in flags]  # also what the first could not tell
    decided = _scores(decide, block, rows, texts, corpus)
    return [
        Judged(item, first, second, second >= decide.relevant_from, wanted & np.isnan(second))
        for item, first, second, wanted in zip(block, flags, decided, rows, strict=True)
    ]


def _scores(
    level: Opened, block: Sequence[Negatives], rows: Rows, texts: Mapping[str, str], corpus: Corpus
) -> list[Scores]:
    """For each query a score of each negative that is asked of, nan of the others: float32 [n]."""
    pairs = list(zip(block, rows, strict=True))

    def requests() -> Iterator[tuple[str, Sequence[str]]]:
        for item, wanted in pairs:
            doc_ids = [item.negatives[i] for i in np.flatnonzero(wanted).tolist()]
            found = corpus.known_rows(doc_ids, "negative", "mine again from this corpus")
            yield texts[item.query_id], corpus.contents(found)

    answers, scored = level.rerank(requests()), []
    for item, wanted in pairs:
        scores, said = np.full(len(wanted), np.nan, np.float32), next(answers, ())
        if len(said) != wanted.sum():
            counts = f"{len(said)} scores for the {wanted.sum()} passages of query {item.query_id}"
            raise errors.PluginError(
                f"{level.name}: the reranker gave {counts}: one a passage is needed, in their order"
            )
        scores[wanted] = said
        scored.append(scores)
    return scored
