"""One refresh: the corpus encoded, searched for the training queries, and negatives chosen from what was found."""

import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hardneg.data.answer_matching import REASON, PassageAnswers, without_answers
from hardneg.data.collection import StoredCollection
from hardneg.data.corpus import candidates
from hardneg.data.negatives import NegativesFile, write_negatives
from hardneg.distributed import barrier, world
from hardneg.encoders.encoder import Encoder
from hardneg.encoders.fastest import usual_budget
from hardneg.encoders.inference import EncodeOptions
from hardneg.encoders.stream import write_index
from hardneg.errors import TrainingError
from hardneg.indexes.exact import ExactOptions, ExactSearcher
from hardneg.indexes.max_passage import pooled
from hardneg.indexes.stored import open_store
from hardneg.layout import NEGATIVES
from hardneg.miners.random import Sampled
from hardneg.miners.ranks import TopK
from hardneg.progress import Seconds, Silent
from hardneg.protocols import IndexBackend, NegativeMiner, Searcher
from hardneg.seeding import derive_seed
from hardneg.training.examples import TrainingData
from hardneg.training.refresh.decayed import KeptWhileHard, LastMined, mined_before
from hardneg.training.refresh.folder import Refresh, RefreshFolder
from hardneg.training.refresh.options import RefreshOptions
from hardneg.types import Candidates, Negatives, RankedList
from hardneg.wording import counted

_BLOCKS = 16  # of queries, as large as those of documents that are written, searched at a time: they are in memory
_INDEX = "searched"
"""The folder of a built index, within that of the vectors."""


@dataclass(frozen=True)
class Mining:
    """What is mined, and how.

    seed: draws depend on it, the refresh and the query alone. answers: what tells the documents that have an answer;
    None where the options do not ask for it. backend: builds the index that is searched, anew for each refresh; None
    searches what was encoded itself, exactly.
    """

    data: TrainingData
    options: RefreshOptions
    seed: int
    answers: PassageAnswers | None = None
    backend: IndexBackend | None = None

    def queries(self, number: int) -> range:
        """The queries of refresh `number`, by place: all, or one part of them; the last part takes the remainder."""
        return chunk(len(self.data.query_ids), number, self.options.query_chunks)

    def asked(self, number: int) -> list[int]:
        """Those of them that have positives: the others cannot be trained on."""
        data = self.data
        return [place for place in self.queries(number) if data.positives.get(data.query_ids[place])]

    def encoding(self, encoder: Encoder) -> EncodeOptions:
        """How to encode.

        With the usual passes where the training waits, for vectors that are the same to the bit and depend on no
        timing; and on a GPU, whose memory the trainer may need: larger ones would be tried until it is full.
        """
        settled = self.options.waits or encoder.device.type == "cuda"
        return EncodeOptions(usual_budget(encoder.device) if settled else None, self.options.precision)

    def miner(self) -> NegativeMiner:
        """What chooses from the top of the corpus, and from what there was, where that stays."""
        options = self.options
        count = options.negatives if options.replace == "all" else 2 * options.negatives  # half of them may be there
        new = TopK(count) if options.choice == "top" else Sampled(options.depth, count)
        return new if options.replace == "all" else KeptWhileHard(new, options)


def chunk(count: int, number: int, chunks: int) -> range:
    """Part `number` modulo `chunks` of `count` things in a row, all of one size but the last."""
    size, place = count // chunks, number % chunks
    return range(place * size, count if place == chunks - 1 else (place + 1) * size)


def asked_answers(collection: StoredCollection, split: str, options: RefreshOptions) -> PassageAnswers | None:
    """What finds the answers to the queries of a split, where the options ask for it."""
    if not options.without_answers:
        return None
    return PassageAnswers.of(collection, split, options.answer_match)


def known_to_be_relevant(
    positives: Mapping[str, Sequence[str]], options: RefreshOptions
) -> Mapping[str, Sequence[str]]:
    """The positives that training and mining know of."""
    if options.excluded == "last":
        return {query_id: doc_ids[-1:] for query_id, doc_ids in positives.items()}
    return positives


def mine_refresh(
    encoders: Sequence[Encoder], mining: Mining, place: RefreshFolder, number: int, step: int
) -> Refresh | None:
    """Mines with a model of `step` updates and publishes the result as refresh `number`.

    Memory does not grow with the corpus: its vectors go to a file, block by block, and are searched block by block.
    Vectors that a killed process left of the same model are not made again.

    Several processes each call this with the same arguments and encode a part of the corpus;
    the first one does the rest, and the others get None.

    Args:
        encoders: the same weights on each device; each encodes a part of the corpus, the first one the queries.
        mining: what is mined, and how.
        place: where refreshes are published.
        number: the refresh, counted from 0.
        step: the model's.

    Raises:
        OSError: the disk is full, or cannot be written; what was begun is removed.
        TrainingError: there is nothing to train on; it is not published.
    """
    _check_asked(mining, number)
    seconds, first = Seconds(), world().first
    if first:
        place.tidy(step)
    barrier()
    try:
        with seconds.of("encode"):
            _write_vectors(encoders, mining, place.vectors(step), place.folder)
        return _published(encoders[0], mining, place, number, step, seconds) if first else None
    except OSError:
        if first:
            place.tidy()
        raise


def _published(
    encoder: Encoder, mining: Mining, place: RefreshFolder, number: int, step: int, seconds: Seconds
) -> Refresh:
    folder, vectors = place.partial(number), place.vectors(step)
    count, dropped = _Count(), Counter[str]()
    if mining.backend is not None:
        with seconds.of("index"):
            _build_index(mining.backend, vectors)
    with seconds.of("write", without=("queries", "search")):
        before = mined_before(mining.options, place, number)
        found = _found(encoder, mining, vectors, number, seconds, before)
        write_negatives(folder / NEGATIVES, count.those(_mined(found, mining, number, dropped)))
    refresh = Refresh(number, step, count.queries, count.negatives, seconds, dropped[REASON])
    try:
        _check_found(mining, refresh)
    except TrainingError:
        place.tidy(step)  # the vectors stay: whoever tries again comes to the same at once
        raise
    place.publish(refresh)
    shutil.rmtree(vectors)
    return refresh


def _write_vectors(encoders: Sequence[Encoder], mining: Mining, folder: Path, counts: Path) -> None:
    """Writes the vectors of all documents.

    counts: where the numbers of segments stay: the same for all refreshes, as they depend on no weights.
    """
    data = mining.data
    rows = encoders[0].rows(data.corpus, data.segments, counts, Silent(), world())
    write_index(encoders, rows, folder, mining.encoding(encoders[0]), Silent())


def _build_index(backend: IndexBackend, vectors: Path) -> None:
    """Builds the index in a folder beside the vectors; one that a killed process left is made again."""
    shutil.rmtree(vectors / _INDEX, ignore_errors=True)
    (vectors / _INDEX).mkdir()
    backend.build(vectors, vectors / _INDEX, Silent())


def _opened(mining: Mining, vectors: Path, device: str) -> Searcher:
    """What is searched: the built index, or the vectors themselves; a hit's row is that of a vector."""
    options = ExactOptions(device=device)
    if mining.backend is None:
        return open_store(vectors, options)
    searcher = mining.backend.open(vectors / _INDEX, mining.data.corpus.rows)
    return searcher.using(options, None) if isinstance(searcher, ExactSearcher) else searcher


def _check_asked(mining: Mining, number: int) -> None:
    if not mining.asked(number):
        part = mining.queries(number)
        told = f"none of its {counted(len(part), 'query')}, of {len(mining.data.query_ids)} in all, has a positive"
        raise TrainingError(f"refresh {number}: nothing to train on: {told}: give fewer query_chunks")


def _check_found(mining: Mining, refresh: Refresh) -> None:
    if not refresh.negatives:
        top = f"the top {mining.options.depth} of each of its {refresh.queries} queries is relevant or has an answer"
        raise TrainingError(f"refresh {refresh.number}: nothing to train on: {top}: raise depth")


class _Count:
    """How many queries and negatives pass by; queries without any are counted too."""

    def __init__(self) -> None:
        self.queries = self.negatives = 0

    def those(self, mined: Iterator[Negatives]) -> Iterator[Negatives]:
        for item in mined:
            self.queries += 1
            self.negatives += len(item.negatives)
            yield item


def _mined(found: Iterator[Candidates], mining: Mining, number: int, dropped: Counter[str]) -> Iterator[Negatives]:
    if mining.answers is not None:
        found = without_answers(found, mining.answers, dropped)
    return mining.miner().mine(found, seed=derive_seed(mining.seed, "refresh", number))


def _found(
    encoder: Encoder, mining: Mining, vectors: Path, number: int, seconds: Seconds, before: NegativesFile | None
) -> Iterator[Candidates]:
    """The top of the corpus for each query that has positives; beside it the negatives that it had before."""
    data, options = mining.data, mining.encoding(encoder)
    searcher = pooled(_opened(mining, vectors, str(encoder.device)), vectors, data.corpus.doc_ids)
    last = None if before is None else LastMined(before, data.corpus, _exact(mining, vectors, str(encoder.device)))
    queries, step = mining.asked(number), _BLOCKS * encoder.block
    for start in range(0, len(queries), step):
        places = queries[start : start + step]
        with seconds.of("queries"):
            asked = encoder.encode([data.texts[place] for place in places], "query", options)
        with seconds.of("search"):
            hits = searcher.search(asked, mining.options.depth)
            query_ids = [data.query_ids[place] for place in places]
            had = [{}] * len(places) if last is None else list(last.hits(query_ids, asked))
        for query_id, rows, scores, more in zip(query_ids, hits.rows, hits.scores, had, strict=True):
            listed = RankedList(data.corpus.ids(rows[rows >= 0]), scores[rows >= 0])
            yield candidates(data.corpus, query_id, data.positives[query_id], {"dense": listed, **more})


def _exact(mining: Mining, vectors: Path, device: str) -> Searcher:
    """What was encoded, by document."""
    return pooled(open_store(vectors, ExactOptions(device=device)), vectors, mining.data.corpus.doc_ids)
