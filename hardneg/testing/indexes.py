"""Contract tests for index backends (`hardneg.protocols.IndexBackend`)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hardneg.formats.vectors import FlatWriter
from hardneg.records import Encoded, EncodedRows, Hits
from hardneg.runtime import Silent, generator
from hardneg.store import tree_digest
from hardneg.testing.plugins import PluginTests, rule

_TOPICS = ("river", "engine", "violin", "tensor", "garden", "planet", "bridge", "copper", "falcon", "harbor")
_DEPTH = 10


class IndexTests(PluginTests):
    """Tests of an index. Set `plugin`; if it may miss documents, set `exact = False` and the minimum `recall` at 10.

    A backend with the input `"texts"` is tested on English sentences (override `texts` and `queries` for another
    language). It must find documents that share a rare word with a query, and none for a query of unknown words.
    A backend with the input `"vectors"` is tested on `count` vectors of `dimension` numbers; they are normalised if
    `exact` is false. For other inputs, override `documents`, `encoded_queries`, `write` and `plain_scores`.
    """

    exact: ClassVar[bool] = True
    recall: ClassVar[float] = 0.9
    count: ClassVar[int] = 400
    dimension: ClassVar[int] = 16

    def texts(self) -> list[str]:
        """Return forty sentences: one for each of ten topics, repeated four times in the same order."""
        return [f"people saw the {topic} again" for _ in range(4) for topic in _TOPICS]

    def queries(self) -> list[str]:
        """Return queries: the first matches documents 2, 12, 22 and 32 equally, the last matches no document."""
        return ["violin", "copper harbor", "zzyzx"]

    def _built(self, folder: Path) -> tuple[Any, Path]:
        """Return the plugin and the folder of a built index, renamed as the store does."""
        plugin, path = self.make(folder), folder / "made.partial"
        path.mkdir()
        if plugin.input == "texts":
            count = plugin.build(((f"d{i}", text) for i, text in enumerate(self.texts())), path, Silent())
            rule(count == len(self.texts()), "`build` returns the number of documents in the index", count)
        else:
            source = self.write(folder / "vectors", self.documents(plugin))
            before = tree_digest(source)
            count = plugin.build(source, path, Silent())
            rule(count == self.count, "`build` returns the number of documents in the index", count)
            rule(tree_digest(source) == before, "`build` does not change its source")
        extra = sorted(item.name for item in folder.iterdir() if item.name not in ("made.partial", "vectors"))
        rule(not extra, "`build` writes only to its own folder", extra)
        return plugin, path.rename(folder / "made")

    def documents(self, plugin: Any) -> Any:
        """Return `count` encoded documents of `dimension` numbers: integers for an exact index, so sums are exact."""
        return drawn_documents(self.count, self.dimension, self.exact)

    def encoded_queries(self, plugin: Any) -> Any:
        """Return ten encoded queries, the first equal to document 3."""
        return drawn_queries(self.documents(plugin), self.exact)

    def write(self, folder: Path, documents: Any) -> Path:
        """Write documents as the stage `encode` does, with the ids `d0`, `d1`, ...; return the folder."""
        return write_encoded(folder, documents)

    def plain_scores(self, queries: Any, documents: Any) -> NDArray[np.float32]:
        """Return the score of each query with each document, float32 [Q, D]; -inf where the document is not a hit."""
        scores: NDArray[np.float32] = queries @ documents.T
        return scores

    def _opened(self, folder: Path) -> tuple[Any, Any, Any]:
        """Return the plugin, a searcher of a built index, and the queries."""
        plugin, path = self._built(folder)
        queries = self.queries() if plugin.input == "texts" else self.encoded_queries(plugin)
        return plugin, plugin.open(path, _rows), queries

    def test_says_what_it_is_built_from(self, tmp_path: Path) -> None:
        source = getattr(type(self.make(tmp_path)), "input", None)
        known = ("texts", *FORMS)
        rule(source in known, f"`input` is one of {', '.join(known)}", repr(source))

    def test_hits_have_their_form(self, tmp_path: Path) -> None:
        _, searcher, queries = self._opened(tmp_path)
        _check(searcher.search(queries, _DEPTH), len(queries), _DEPTH)

    def test_finds_the_best(self, tmp_path: Path) -> None:
        plugin, searcher, queries = self._opened(tmp_path)
        hits = searcher.search(queries, _DEPTH)
        if plugin.input == "texts":
            rule(set(hits.rows[0, :4].tolist()) == {2, 12, 22, 32}, "all equal matches are found first", hits.rows[0])
            rule(bool((hits.rows[-1] == -1).all()), "a query of unknown words has no hits", hits.rows[-1])
            return
        scores = self.plain_scores(queries, self.documents(plugin))
        order = np.lexsort((np.broadcast_to(np.arange(scores.shape[1]), scores.shape), -scores))[:, :_DEPTH]
        top = np.take_along_axis(scores, order, 1)
        best = Hits(np.where(np.isneginf(top), -1, order), top)
        if self.exact:
            same = np.array_equal(hits.rows, best.rows)
            rule(same, "an exact index agrees with a full sort, ties by row", f"{hits.rows[0]} for {best.rows[0]}")
            rule(np.allclose(hits.scores, best.scores, atol=1e-4), "scores equal `plain_scores`", hits.scores[0])
            return
        reached = np.take_along_axis(scores, np.maximum(hits.rows, 0), 1) >= best.scores[:, -1:] - 1e-5
        recall = float((reached & (hits.rows >= 0))[best.rows[:, -1] >= 0].mean())
        rule(recall >= self.recall, f"recall at {_DEPTH} is at least {self.recall}", f"{recall:.3f}")

    def test_returns_its_rows(self, tmp_path: Path) -> None:
        from hardneg.indexes.candidate_scoring import score_pairs

        plugin, searcher, queries = self._opened(tmp_path)
        hits = searcher.search(queries, _DEPTH)
        query, column = np.nonzero(hits.rows >= 0)
        for name in ("encoded", "vectors"):
            if plugin.input == "texts" or not hasattr(searcher, name):
                continue
            held, own = getattr(searcher, name)(hits.rows[query, column]), hits.scores[query, column]
            rule(len(held) == len(query), f"`{name}` returns one text per row", len(held))
            if name == "vectors":
                sound = held.dtype == np.float32 and held.shape[1:] == (self.dimension,)
                rule(sound, "vectors are float32 [n, dimension]", f"{held.dtype}, {held.shape}")
            scores = score_pairs(queries[query], held)
            same = np.allclose(scores, own, rtol=1e-4, atol=1e-4)
            rule(same, f"scores computed from `{name}` equal the scores of the hits", scores - own)

    def test_more_than_there_is(self, tmp_path: Path) -> None:
        plugin, searcher, queries = self._opened(tmp_path)
        total = len(self.texts()) if plugin.input == "texts" else self.count
        hits = searcher.search(queries, total + 5)
        _check(hits, len(queries), total + 5)
        rule(bool((hits.rows[:, total:] == -1).all()), "short lists are padded with -1", hits.rows[0, -6:])
        if plugin.input == "texts" or not self.exact:
            return
        scored = np.isfinite(self.plain_scores(queries, self.documents(plugin))).sum(1)
        counts = (hits.rows >= 0).sum(1)
        rule(np.array_equal(counts, scored), "for large k, an exact index omits only documents without a score", counts)

    def test_no_queries(self, tmp_path: Path) -> None:
        _, searcher, queries = self._opened(tmp_path)
        _check(searcher.search(queries[:0], 3), 0, 3)

    def test_reopened_it_finds_the_same(self, tmp_path: Path) -> None:
        _, searcher, queries = self._opened(tmp_path)
        hits = searcher.search(queries, _DEPTH)
        moved = (tmp_path / "made").rename(tmp_path / "moved")
        again = self.make(tmp_path).open(moved, _rows)
        rule(_same(again.search(queries, _DEPTH), hits), "a moved and reopened index returns the same hits")
        lines = [again.search(queries[i : i + 1], _DEPTH) for i in range(len(queries))]
        rows, scores = np.vstack([line.rows for line in lines]), np.vstack([line.scores for line in lines])
        rule(_same(Hits(rows, scores), hits), "the hits of a query do not depend on other queries")


def _rows(doc_ids: Sequence[str]) -> NDArray[np.int64]:
    return np.array([int(doc_id[1:]) for doc_id in doc_ids], dtype=np.int64)


def _check(hits: Hits, count: int, k: int) -> None:
    rows, scores = hits.rows, hits.scores
    rule(rows.shape == scores.shape == (count, k), f"hits have shape [{count}, {k}]", f"{rows.shape}, {scores.shape}")
    sound = rows.dtype == np.int64 and scores.dtype == np.float32
    rule(sound, "rows are int64, scores float32", (rows.dtype, scores.dtype))
    rule(np.array_equal(np.isneginf(scores), rows < 0), "a score is -inf if and only if its row is -1")
    for line, values in zip(rows, scores, strict=True):
        real = line[line >= 0]
        rule(bool((line[: len(real)] >= 0).all()), "padding is at the end of a list", line)
        rule(len(np.unique(real)) == len(real), "a list contains a document at most once", line)
        values = values[: len(real)]
        rule(bool((values[1:] <= values[:-1]).all()), "scores descend", values)
        tied = values[1:] == values[:-1]
        rule(bool((real[1:] > real[:-1])[tied].all()), "tied documents are in ascending row order", line)


def _same(one: Hits, two: Hits) -> bool:
    return np.array_equal(one.rows, two.rows) and np.allclose(one.scores, two.scores, rtol=1e-5, atol=1e-5)


FORMS = ("vectors", "weights", "token-vectors")
_QUERIES = 9


def drawn_documents(count: int, dimension: int, exact: bool) -> NDArray[np.float32]:
    """Return float32 [count, dimension] with some equal rows: integers for an exact index, else normalised rows."""
    vectors = generator(3, "vectors").standard_normal((count, dimension)).astype(np.float32)
    vectors[count // 2 :: 7] = vectors[3]  # ties
    return np.round(vectors * 4) if exact else vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def drawn_queries(documents: NDArray[np.float32], exact: bool) -> NDArray[np.float32]:
    """Return ten queries, float32 [10, dimension], the first equal to document 3; integers for an exact index."""
    draws = generator(4, "queries").standard_normal((_QUERIES, documents.shape[1])).astype(np.float32)
    return np.vstack([documents[3:4], np.round(draws) if exact else draws])


def write_encoded(folder: Path, documents: NDArray[np.float32]) -> Path:
    """Write documents as the stage `encode` does, with the ids `d0`, `d1`, ...; return the folder."""
    with FlatWriter(folder, documents.shape[1], len(documents)) as writer:
        writer.write(documents)
        writer.write_doc_ids(f"d{i}" for i in range(len(documents)))
        writer.close()
    return folder


def check_encoded(encoded: Encoded, form: str, count: int, dimension: int) -> None:
    """Fail unless `encoded` has `count` texts, the `form`, valid offsets, and finite float32 rows of `dimension`."""
    rule(len(encoded) == count, "each text is encoded once", f"{len(encoded)} for {count}")
    arrays = list(encoded.flat.values()) if isinstance(encoded, EncodedRows) else [encoded]
    plain = "vectors" if isinstance(encoded, np.ndarray) else form if form != "vectors" else "several vectors"
    rule(form == plain, "encoded texts have the `form` of the family", f"{plain} for {form}")
    for array in arrays:
        rule(bool(np.isfinite(array).all()), "numbers are finite")
        if array.ndim > 1:
            rule(array.dtype == np.float32, "numbers are float32", array.dtype)
            rule(array.shape[1] == dimension, f"vectors have `dimension` {dimension}", array.shape)
    if isinstance(encoded, EncodedRows):
        rule(encoded.offsets.dtype == np.int64, "offsets are int64", encoded.offsets.dtype)
        ascend = encoded.offsets[0] == 0 and bool((np.diff(encoded.offsets) >= 0).all())
        rule(ascend, "offsets start at 0 and ascend", encoded.offsets)
        rule({len(array) for array in arrays} == {encoded.offsets[-1]}, "the last offset is the length of the arrays")


def alike(one: Encoded, other: Encoded, tolerance: float) -> bool:
    """Return whether two encodings have the same form and shape, and are equal within `tolerance`."""
    if isinstance(one, EncodedRows) and isinstance(other, EncodedRows):
        pairs = zip(one.flat.values(), other.flat.values(), strict=True)
        near = (np.allclose(mine, theirs, rtol=tolerance, atol=tolerance) for mine, theirs in pairs)
        return np.array_equal(one.offsets, other.offsets) and all(near)
    if not isinstance(one, np.ndarray) or not isinstance(other, np.ndarray):
        return False
    return one.shape == other.shape and np.allclose(one, other, rtol=tolerance, atol=tolerance)
