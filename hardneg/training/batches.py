"""Batches of drawn examples: tokenised ahead, and encoded in passes of about equal length."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from hardneg.encoders.encoder import Encoder
from hardneg.encoders.spec import Side
from hardneg.encoders.tokens.tokens import Tokens, token_batches
from hardneg.formats.corpus import Corpus
from hardneg.formats.segments import Segments
from hardneg.runtime.distributed import World, world
from hardneg.training.examples import SampledBatch
from hardneg.training.guide import Guide
from hardneg.training.scoring import BatchColumns, GuideVectors
from hardneg.training.sources import JoinedCorpora

Features = dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class Parts:
    """Features of n texts in parts; position: int64 [n], of each text in all parts; None with one part."""

    features: list[Features]
    position: Tensor | None

    def join(self, vectors: Sequence[Tensor]) -> Tensor:
        """[n, d], or [n, T, d] with the largest T of a part, in the order of the texts, from what each part became."""
        if self.position is None:
            return vectors[0]
        if vectors[0].dim() > 2:
            longest = max(part.shape[1] for part in vectors)
            vectors = [nn.functional.pad(part, (0, 0, 0, longest - part.shape[1])) for part in vectors]
        return torch.cat(list(vectors))[self.position.to(vectors[0].device)]

    def through(self, embed: Callable[[Features], Tensor]) -> Tensor:
        """Embed the texts, a pass for each part; in the order of the texts.

        The result is that of one pass but for the rounding of floats, and for dropout, which draws pass by pass.
        """
        return self.join([embed(part) for part in self.features])


def in_parts(features: Features, size: int) -> Parts:
    """Parts of `size` texts, the longest first, each without the columns that are padding in all of its texts.

    features: tensors [n, longest text] with an `attention_mask`, padded on either side, or values of each text [n];
    without a mask nothing is padded, and there is one part.
    """
    if "attention_mask" not in features or len(features["attention_mask"]) <= size:
        return Parts([features], None)
    order = features["attention_mask"].sum(1).argsort(descending=True, stable=True)
    return _of_rows(features, torch.split(order, size))


def in_passes(features: Features, tokens: int) -> Parts:
    """The same in parts of at most `tokens` padded tokens, or of one text."""
    if "attention_mask" not in features or features["attention_mask"].numel() <= tokens:
        return Parts([features], None)
    lengths = features["attention_mask"].sum(1).numpy()
    return _of_rows(features, [torch.from_numpy(rows) for rows in token_batches(lengths, tokens)])


def _of_rows(features: Features, rows: Sequence[Tensor]) -> Parts:
    parts = []
    for chosen in rows:
        part = {name: value[chosen] for name, value in features.items()}
        used = part["attention_mask"].any(0)
        if "query_expansion_positions" in part:  # scored, though no token attends to them
            used |= part["query_expansion_positions"].any(0)
        parts.append({name: value[:, used] if value.dim() > 1 else value for name, value in part.items()})
    return Parts(parts, torch.cat(list(rows)).argsort())


_Start = TypeVar("_Start")
_Output = TypeVar("_Output")


@dataclass(frozen=True, slots=True)
class Batch:
    """One tokenised batch.

    queries and documents: features of this process's share; each document is there once.
    distinct: how many documents there are, all shares together.
    column: int64 [M], the document of each column of the scores.
    counts: int64, how many rows of `documents`, its segments, each of this process's documents has; none: one each.
    guide: a guide's vectors of all queries and documents, if there is one.
    source: the number of the source of all queries, where a batch is of one.
    """

    query_ids: list[str]
    queries: dict[str, Tensor]
    documents: dict[str, Tensor]
    distinct: int
    column: Tensor
    columns: BatchColumns
    counts: Tensor | None = None
    guide: GuideVectors | None = None
    source: int | None = None


def make_batch(
    encoder: Encoder,
    corpus: Corpus | JoinedCorpora,
    draw: SampledBatch,
    cut: Segments | None = None,
    here: World | None = None,
    guide: Guide | None = None,
) -> Batch:
    """Tokenises this process's share of what was drawn; documents by segment where there is a `cut`.

    here: this process among those that share the draw; by default all do.
    """
    rows, first, column = np.unique(draw.documents, return_index=True, return_inverse=True)
    share, queries = own_share(len(rows), here), own_share(len(draw.texts), here)
    contents, counts = corpus.contents(rows[share]), None
    if cut is None:
        prompts = draw.prompts_of("document", first[share] // draw.documents.shape[1])
        documents = _features(encoder, contents, "document", prompts)
    else:
        segmented = encoder.segment(contents, cut)
        documents = segmented.tokens.batch(np.arange(len(segmented.tokens.lengths)))
        counts = torch.from_numpy(segmented.counts)
    guided = None
    if guide is not None:
        vectors = map(torch.from_numpy, guide.of(draw.queries, rows))
        guided = GuideVectors(**_pinned(dict(zip(("queries", "documents"), vectors, strict=True)), encoder.device))
    query_prompts = draw.prompts_of("query", np.arange(len(draw.texts))[queries])
    return Batch(
        draw.query_ids,
        _pinned(_features(encoder, draw.texts[queries], "query", query_prompts), encoder.device),
        _pinned(documents, encoder.device),
        len(rows),
        torch.from_numpy(column.reshape(-1)),
        BatchColumns.of(draw, corpus.content_hash),
        counts,
        guided,
        int(draw.sources[0]) if len(set(draw.sources.tolist())) == 1 else None,
    )


def _features(encoder: Encoder, texts: Sequence[str], side: Side, prompts: Sequence[str | None] | None) -> Features:
    """The features of texts; of each prompt apart, and joined, where they have their own."""
    if prompts is None:
        return encoder.features(texts, side)
    rows = {prompt: [at for at, each in enumerate(prompts) if each == prompt] for prompt in dict.fromkeys(prompts)}
    parts = [encoder.prompted(side, prompt).tokenise([texts[at] for at in own], side) for prompt, own in rows.items()]
    order = np.argsort(np.concatenate([np.array(own, np.int64) for own in rows.values()]))
    features = Tokens.join(parts).batch(order)
    if any(part.prompt_length for part in parts):
        lengths = np.repeat([part.prompt_length for part in parts], [len(own) for own in rows.values()])
        features["prompt_length"] = torch.from_numpy(lengths[order])
    return features


def _pinned(features: Features, device: torch.device) -> Features:
    """Pin features in memory for a GPU."""
    return {name: value.pin_memory() for name, value in features.items()} if device.type == "cuda" else features


def own_share(total: int, here: World | None = None) -> slice:
    """This process's part; one thing at least, as each process must compute something to take part in the sum."""
    part = (here or world()).share(total)
    return slice(part.start, max(part.stop, part.start + 1))


def ahead(make: Callable[[_Start], _Output], starts: Iterable[_Start]) -> Iterator[_Output]:
    """Yield `make` of each start, computed one ahead in another thread."""
    with ThreadPoolExecutor(max_workers=1) as maker:
        waiting = None
        for start in starts:
            later = maker.submit(make, start)
            if waiting is not None:
                yield waiting.result()
            waiting = later
        if waiting is not None:
            yield waiting.result()
