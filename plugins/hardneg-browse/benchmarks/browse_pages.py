"""Measure the time that pages of `hardneg browse` take with many queries, during and after the survey of all queries.

    python plugins/hardneg-browse/benchmarks/browse_pages.py --queries 100000

Each row of the Markdown tables has a kind of page, and the median and maximum milliseconds of wall-clock and processor
time over `--rounds` such pages, each with another query or other words. The data are drawn with fixed seeds: 20,000
documents of about 100 words, and for each query 30 negatives and two ranked lists of 100 documents.
"""

import argparse
import http.client
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np
from hardneg_browse.browsed import opened
from hardneg_browse.serving import BrowsePage, listening
from hardneg_browse.sources import BrowseSources, Marks

from hardneg.formats.collection import write_collection
from hardneg.formats.negatives import write_negatives
from hardneg.formats.runs import write_run
from hardneg.records import Document, Judgement, Negatives, Query, RankedList
from hardneg.runtime import Silent

DOCUMENTS, LISTED, MINED = 20_000, 100, 30
_WORDS = [f"{start}{middle}{end}" for start in "bdfglm" for middle in ("ara", "eli", "oro", "unu") for end in "nrstk"]


class DrawnCollection:
    """A collection of texts of random words, with fixed seeds."""

    def __init__(self, queries: int) -> None:
        self._queries = queries

    def documents(self) -> Iterator[Document]:
        draws = random.Random(1)
        return (Document(f"d{n}", " ".join(draws.choices(_WORDS, k=100)), f"title {n}") for n in range(DOCUMENTS))

    def splits(self) -> list[str]:
        return ["train"]

    def queries(self, split: str) -> Iterator[Query]:
        draws = random.Random(2)
        return (Query(f"q{n}", " ".join(draws.choices(_WORDS, k=8))) for n in range(self._queries))

    def qrels(self, split: str) -> Iterator[Judgement]:
        return (Judgement(f"q{n}", f"d{n % DOCUMENTS}", 1) for n in range(self._queries))

    def notes(self) -> list[str]:
        return []


def drawn_lists(queries: int, seed: int) -> Iterator[tuple[str, RankedList]]:
    """Yield each query's id and a random list of documents."""
    draws, scores = np.random.default_rng(seed), np.arange(LISTED, 0, -1, dtype=np.float32)
    for number in range(queries):
        first, step = draws.integers(DOCUMENTS), int(draws.integers(1, 50))
        rows = (first + step * np.arange(LISTED)) % DOCUMENTS
        yield f"q{number}", RankedList([f"d{row}" for row in rows.tolist()], scores)


def drawn_sources(folder: Path, queries: int) -> BrowseSources:
    """Write a collection, two runs and a file of negatives into a folder, and return them as sources."""
    write_collection(DrawnCollection(queries), folder / "stored", Silent())
    runs = {"first": folder / "first.trec.gz", "second": folder / "second.trec.gz"}
    for seed, path in enumerate(runs.values()):
        write_run(path, drawn_lists(queries, seed))
    mined = (
        Negatives(query_id, [f"d{n % DOCUMENTS}"], ranked.doc_ids[:MINED], ranked.scores[:MINED])
        for n, (query_id, ranked) in enumerate(drawn_lists(queries, 0))
    )
    write_negatives(folder / "mined.arrow", mined)
    return BrowseSources(
        "drawn", folder / "marks.qrels", {"mined": folder / "mined.arrow"}, runs=runs, dataset=folder / "stored"
    )


def pages(queries: int) -> dict[str, Callable[[random.Random], str]]:
    """Return, by kind of page, a function that draws an address."""
    return {
        "queries": lambda draws: f"/?page={draws.randint(1, queries // 25)}",
        "search, one word": lambda draws: f"/?words={draws.choice(_WORDS)}&page=3",
        "search, three words": lambda draws: f"/?words={'+'.join(draws.choices(_WORDS, k=3))}",
        "search, an id": lambda draws: f"/?words=q{draws.randrange(queries)}",
        "query": lambda draws: f"/query?q=q{draws.randrange(queries)}",
        "most suspicious": lambda draws: f"/suspicious?page={draws.randint(1, 40)}",
    }


def measured(server: BrowsePage, address: str) -> tuple[float, float]:
    """Return the milliseconds that one page takes: wall-clock time, and processor time of this process."""
    connection = http.client.HTTPConnection("127.0.0.1", server.access.port, timeout=600)
    clock, spent = time.perf_counter(), time.process_time()
    connection.request("GET", address, headers={"Cookie": server.access.cookie.partition(";")[0]})
    answer = connection.getresponse()
    answer.read()
    found = (1000 * (time.perf_counter() - clock), 1000 * (time.process_time() - spent))
    if answer.status != 200:
        raise SystemExit(f"{address}: {answer.status}")
    return found


def show(server: BrowsePage, queries: int, rounds: int, title: str) -> None:
    """Print a table with a row for each kind of page."""
    print(f"\n{title}\n\n| page | median ms | largest | median ms of processors | largest |\n|---|---|---|---|---|")
    for name, address in pages(queries).items():
        draws = random.Random(3)
        measured(server, address(draws))  # what is made lazily
        found = [measured(server, address(draws)) for _ in range(rounds)]
        cells = [f"{f([each[side] for each in found]):.0f}" for side in (0, 1) for f in (median, max)]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    """Print the tables of times during and after the survey."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--wait", action="store_true", help="Until all queries were gone through; then once more.")
    given = parser.parse_args()
    with TemporaryDirectory() as folder:
        sources = drawn_sources(Path(folder), given.queries)
        began = time.monotonic()
        with opened(sources, Silent()) as browsed, listening(browsed, Marks(sources.marks)) as server, server.beside():
            print(f"opened in {time.monotonic() - began:.0f} s")
            show(server, given.queries, given.rounds, "While queries are gone through")
            while given.wait and not server.survey.finished:
                time.sleep(5)
                print(f"{server.survey.done} queries, {time.monotonic() - began:.0f} s", flush=True)
            server.survey.stop()
            show(server, given.queries, given.rounds, f"After {server.survey.done} queries")


if __name__ == "__main__":
    main()
