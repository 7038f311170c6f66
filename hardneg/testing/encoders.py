"""Contract tests for encoder families (`hardneg.encoders.protocol.EncoderFamily` and `TextEncoder`)."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from hardneg.encoders.open import resolved
from hardneg.encoders.protocol import EncodeOptions
from hardneg.encoders.spec import FullSpec, ModelSpec
from hardneg.formats.corpus import Corpus, write_corpus
from hardneg.formats.segments import Segments
from hardneg.records import Document, Encoded, Lookup, ModelError
from hardneg.runtime import Silent, World
from hardneg.testing import indexes as forms
from hardneg.testing.plugins import TOLERANCE, PluginTests, check_light, rule

_TEXT = "an old river ran past the quiet bridge and blue harbor while copper engines sang to a falcon"
_BLOCK = 3


class EncoderTests(PluginTests):
    """Tests of an encoder. Set `plugin`; override `model` for an encoder family that reads files or calls a server.

    tolerance: the maximum difference between two encodings of one text (batches change the last bits).
    own_share: the minimum share of documents that are nearest to themselves; set it below 1 for inner products of
    unnormalised vectors, where a longer vector may be nearer.
    """

    tolerance: ClassVar[float] = TOLERANCE
    own_share: ClassVar[float] = 1.0

    def model(self, folder: Path) -> ModelSpec:
        """Return the spec of the model to test, as set in a recipe; `folder` is private to the test."""
        return ModelSpec("tested")

    def others(self, folder: Path) -> Sequence[Any]:
        """Return variants of the encoder with options that change the encoding of a text; by default, none."""
        return ()

    def documents(self) -> list[str]:
        """Return eight different texts, from one word to many words."""
        words = _TEXT.split()
        return [" ".join(words[i % 5 : i % 5 + 1 + 2 * i] * (1 + i // 6)) for i in range(8)]

    def queries(self) -> list[str]:
        """Return three queries."""
        return ["old river", "the blue harbor and a bridge", "engines"]

    def check_encoded(self, encoded: Any, form: str, count: int, dimension: int) -> None:
        """Fail unless `encoded` has `count` texts, the declared `form`, the `dimension` and finite numbers."""
        forms.check_encoded(encoded, form, count, dimension)

    def alike(self, one: Any, other: Any, tolerance: float) -> bool:
        """Return whether two encodings of the same texts are equal within `tolerance`, relative plus absolute."""
        return forms.alike(one, other, tolerance)

    def _opened(self, folder: Path, to_train: bool = False) -> Any:
        return self.make(folder).load(self._resolved(folder), "cpu", None if to_train else "fp32")

    def _resolved(self, folder: Path, spec: ModelSpec | None = None, family: Any = None) -> resolved.ResolvedModel:
        return resolved.resolve(spec or self.model(folder), fetch=True, family=family or self.make(folder))

    def _encode(self, encoder: Any, texts: Sequence[str], side: str = "document", **options: Any) -> Any:
        return encoder.encode(texts, side, EncodeOptions(precision="fp32", **options))

    def _alike(self, one: Encoded, other: Encoded, text: str) -> None:
        rule(self.alike(one, other, self.tolerance), text)

    def test_says_what_it_makes(self, tmp_path: Path) -> None:
        family = type(self.make(tmp_path))
        rule(getattr(family, "form", None) in forms.FORMS, f"`form` is one of {', '.join(forms.FORMS)}", repr(family))
        rule(type(getattr(family, "trainable", None)) is bool, "`trainable` is True or False", repr(family))
        encoder = self._opened(tmp_path)
        rule(isinstance(encoder.spec, FullSpec), "an encoder's `spec` is a FullSpec", encoder.spec)
        rule(encoder.dimension > 0 and encoder.block > 0, "`dimension` and `block` are above 0")

    def test_what_is_known_of_a_model(self, tmp_path: Path) -> None:
        family, model = self.make(tmp_path), self._resolved(tmp_path)
        full, lookup, shape = family.full(model), family.look_up(model), model.shape
        rule(isinstance(full, FullSpec), "`full` returns a FullSpec", type(full))
        rule(isinstance(lookup, Lookup), "`look_up` returns a Lookup", type(lookup))
        rule(shape.hidden > 0 and shape.layers >= 0 and shape.weights >= 0, "the sizes in `shape` are valid", shape)
        rule(self._opened(tmp_path).spec == full, "an opened model has the spec that `full` returns")

    def test_the_digest_names_what_it_makes(self, tmp_path: Path) -> None:
        spec, name = self.model(tmp_path), self._resolved(tmp_path).digest
        rule(bool(re.fullmatch("[0-9a-f]{32}", name)), "a digest has 32 hexadecimal digits", repr(name))
        rule(self._resolved(tmp_path).digest == name, "the same model has the same digest")
        text = "an option that changes encodings changes the digest"
        prompted = self._resolved(tmp_path, replace(spec, query_prompt="other words: "))
        rule(prompted.digest != name, text, "another prompt")
        for other in self.others(tmp_path):
            rule(self._resolved(tmp_path, spec, other).digest != name, text, f"{other} for {self.make(tmp_path)}")

    def test_its_module_is_light(self, tmp_path: Path) -> None:
        check_light(type(self.make(tmp_path)).__module__, "importing a family's module loads no heavy package")

    def test_encodes_in_order(self, tmp_path: Path) -> None:
        encoder, texts = self._opened(tmp_path), self.documents()
        form = type(self.make(tmp_path)).form
        for side in ("query", "document"):
            rows = self._encode(encoder, texts, side)
            self.check_encoded(rows, form, len(texts), encoder.dimension)
            text = "the encoding of a text depends only on the text, not on"
            backwards = self._encode(encoder, texts[::-1], side)
            self._alike(backwards[np.arange(len(texts))[::-1]], rows, f"{text} the order")
            self._alike(self._encode(encoder, texts, side, window=_BLOCK), rows, f"{text} the window")
            self._alike(self._encode(encoder, texts, side, tokens_per_batch=8), rows, f"{text} the batch")
            for number in (0, len(texts) - 1):
                own = rows[number : number + 1]
                self._alike(self._encode(encoder, texts[number : number + 1], side), own, f"{text} the others")
                self._alike(self._encode(encoder, [texts[number]] * 2, side)[1:], own, f"{text} its copies")

    def test_empty_texts(self, tmp_path: Path) -> None:
        encoder, form = self._opened(tmp_path), type(self.make(tmp_path)).form
        for texts in ([""], ["a river", "", " \n", "a bridge"], []):
            for side in ("query", "document"):
                self.check_encoded(self._encode(encoder, texts, side), form, len(texts), encoder.dimension)

    def test_windows_stream(self, tmp_path: Path) -> None:
        encoder, texts = self._opened(tmp_path), self.documents()
        taken: list[int] = []
        done: list[int] = []

        def parts() -> Any:
            for start in range(0, len(texts), 2):
                taken.append(start)
                yield start, texts[start : start + 2]

        encoded = []
        for number, (start, part) in enumerate(
            encoder.encode_windows(parts(), "document", EncodeOptions(precision="fp32"), done.append)
        ):
            rule(start == 2 * number, "windows are in order, each with the number of its first text", start)
            rule(len(taken) <= number + 3, "at most two windows are read ahead", len(taken))
            encoded.append(part)
        rule(sum(done) == len(texts), "`advance` counts each text once", done)
        joined = np.concatenate(encoded) if isinstance(encoded[0], np.ndarray) else type(encoded[0]).join(encoded)
        self._alike(joined, self._encode(encoder, texts), "`encode_windows` returns the same as `encode`")

    def _corpus(self, folder: Path, texts: Sequence[str]) -> Corpus:
        write_corpus((Document(f"d{i}", text) for i, text in enumerate(texts)), folder / "corpus", Silent())
        return Corpus.open(folder / "corpus")

    def _store(self, folder: Path, encoder: Any, rows: Any) -> Any:
        from hardneg.encoders.stream import write_index
        from hardneg.indexes.open_store import open_store

        (path := folder / "store").mkdir()
        write_index([encoder], rows, path, EncodeOptions(precision="fp32"), Silent())
        return open_store(path)

    def test_a_store_is_written(self, tmp_path: Path) -> None:
        from hardneg.indexes.open_store import open_store

        encoder, texts = self._opened(tmp_path), self.documents()
        corpus, path = self._corpus(tmp_path, texts), tmp_path / "store"
        path.mkdir()
        rows = encoder.rows(corpus, None, tmp_path / "counts", Silent(), World())
        for last in (False, True):
            with encoder.writer(path, rows) as writer:
                for start in range(0, len(texts), _BLOCK) if last else (0,):
                    writer.write(self._encode(encoder, texts[start : start + _BLOCK]))
                if last:
                    writer.write_doc_ids(rows.doc_ids)
                    writer.close()
            rule((path / encoder.files[0]).exists() == last, "the first of `files` appears when the writer is closed")
        lacking = [name for name in encoder.files if not (path / name).exists()]
        rule(not lacking, "a writer creates all `files`", lacking)
        stored = open_store(path).encoded(np.arange(len(corpus)))
        self._alike(stored, self._encode(encoder, texts), "a store returns the encoded documents")

    def test_a_document_is_nearest_to_itself(self, tmp_path: Path) -> None:
        from hardneg.indexes.candidate_scoring import score_matrix

        encoder, texts = self._opened(tmp_path), self.documents()
        corpus = self._corpus(tmp_path, texts)
        store = self._store(tmp_path, encoder, encoder.rows(corpus, None, tmp_path, Silent(), World()))
        encoded = self._encode(encoder, texts)
        hits, scores = store.search(encoded, 1), score_matrix(encoded, encoded)
        best = np.allclose(hits.scores[:, 0], scores.max(1), rtol=self.tolerance, atol=self.tolerance)
        rule(best, "a search with documents finds the best scores", hits.scores[:, 0])
        share = float((hits.rows[:, 0] == np.arange(len(texts))).mean())
        rule(share >= self.own_share, f"{self.own_share:.0%} of documents are nearest to themselves", f"{share:.0%}")
        queries = self._encode(encoder, self.queries(), "query")
        top = store.search(queries, 1).scores[:, 0]
        best = np.allclose(top, score_matrix(queries, encoded).max(1), rtol=self.tolerance, atol=self.tolerance)
        rule(best, "a search with queries finds the best scores", top)

    def test_long_documents_are_cut_or_refused(self, tmp_path: Path) -> None:
        encoder, corpus = self._opened(tmp_path), self._corpus(tmp_path, self.documents())
        try:
            rows = encoder.rows(corpus, Segments(12, count=3), tmp_path, Silent(), World())
        except ModelError as error:
            rule("segments" in str(error) and "\n" not in str(error), "the error names `segments` in one line", error)
            return
        rule(len(rows) > len(corpus), "long documents have several rows", len(rows))
        held = self._store(tmp_path, encoder, rows).encoded(np.arange(len(rows)))
        self.check_encoded(held, type(self.make(tmp_path)).form, len(rows), encoder.dimension)

    def test_what_cannot_learn_says_so(self, tmp_path: Path) -> None:
        encoder = self._opened(tmp_path, to_train=True)
        try:
            resolved.learner(encoder)
        except ModelError as error:
            rule(not type(self.make(tmp_path)).trainable, "a family can be trained if `trainable` is True", error)
        else:
            rule(type(self.make(tmp_path)).trainable, "`trainable` is True if a family can be trained")


class TrainableEncoderTests(EncoderTests):
    """Tests of an encoder family that can be trained; an installed entry point must provide the family."""

    def test_it_learns_what_it_is_searched_by(self, tmp_path: Path) -> None:
        import torch

        from hardneg.indexes.candidate_scoring import score_matrix

        encoder = self._opened(tmp_path, to_train=True)
        queries, documents = self._embedded(encoder, "query"), self._embedded(encoder, "document")
        scores = encoder.score(queries, documents)
        wanted = score_matrix(
            self._encode(encoder, self.queries(), "query"), self._encode(encoder, self.documents(), "document")
        )
        wanted = np.where(np.isneginf(wanted), 0, wanted)  # no hit
        trained = scores.detach().numpy()
        near = np.allclose(trained, wanted, rtol=self.tolerance, atol=self.tolerance)
        rule(near, "training and search compute the same scores", f"{trained[0]} for {wanted[0]}")
        columns = torch.tensor([2, 0, 0, 1])
        chosen = encoder.score(queries, documents, columns)
        rule(bool(torch.allclose(chosen, scores[:, columns], atol=1e-5)), "`columns` selects documents")
        encoder.module.train()
        encoder.score(self._embedded(encoder, "query"), self._embedded(encoder, "document")).sum().backward()
        learnt = [part for part in encoder.module.parameters() if part.grad is not None and bool(part.grad.any())]
        rule(bool(learnt), "scores have gradients with respect to the weights")

    def _embedded(self, encoder: Any, side: str) -> Any:
        texts = self.queries() if side == "query" else self.documents()
        return encoder.embed(encoder.features(texts, side), side)

    def test_what_learns_is_stored_and_read_back(self, tmp_path: Path) -> None:
        import torch

        encoder = self._opened(tmp_path, to_train=True)
        queries, documents = self._embedded(encoder, "query"), self._embedded(encoder, "document")
        held = encoder.collect(documents)
        self._alike(held, self._encode(encoder, self.documents()), "`collect` returns the same as `encode`")
        again = encoder.score(queries, encoder.tensor(held))
        scores = encoder.score(queries, documents)
        near = torch.allclose(again, scores, atol=self.tolerance, rtol=self.tolerance)
        rule(bool(near), "`tensor` restores what `embed` returned")
        own = np.array([[0, 5], [3, 1], [7, 7]])
        lists = encoder.score_lists(queries, held[own.ravel()])
        chosen = scores[torch.arange(len(own))[:, None], torch.from_numpy(own)]
        near = lists.shape == chosen.shape and torch.allclose(lists, chosen, atol=self.tolerance, rtol=self.tolerance)
        rule(bool(near), "`score_lists` returns the same scores as `score`", lists)

    def test_saved_and_opened_it_is_the_same(self, tmp_path: Path) -> None:
        encoder, folder = self._opened(tmp_path, to_train=True), tmp_path / "saved"
        encoder.save(folder)
        again: Any = resolved.load_encoder(folder, "cpu", "fp32")
        family = type(resolved.resolve(again.spec).family)
        rule(family is type(self.make(tmp_path)), "a saved model is opened by the same family", family)
        for side, texts in (("query", self.queries()), ("document", self.documents())):
            made, same = (self._encode(each, texts, side) for each in (encoder, again))
            self._alike(same, made, f"a saved model encodes each {side} as before")
