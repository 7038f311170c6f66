"""The contract of families of encoders (`hardneg.encoders.protocol.EncoderFamily` and `TextEncoder`) as tests."""

import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from hardneg.encoders.open.resolved import ResolvedModel, resolve
from hardneg.encoders.protocol import StoredRows, TextWindows
from hardneg.encoders.spec import FullSpec, ModelSpec
from hardneg.formats.corpus import Corpus, write_corpus
from hardneg.formats.segments import Segments
from hardneg.records.errors import ModelError
from hardneg.records.types import Document, Encoded, Lookup
from hardneg.runtime.distributed import World
from hardneg.runtime.progress import Silent
from hardneg.testing.encoded import alike, check_encoded
from hardneg.testing.forms import FORMS
from hardneg.testing.plugin_contract import PluginTests, rule
from hardneg.testing.stages import HEAVY

_TEXT = "an old river ran past the quiet bridge and blue harbor while copper engines sang to a falcon"
_BLOCK = 3


class _Killed(Exception):
    pass


class EncoderTests(PluginTests):
    """Set `plugin`, and override `model` where the kind reads files or asks a server.

    tolerance: how far two numbers of one text may be apart (batches change last bits).
    found: the least share of documents that are nearest to their own text; below 1 where vectors of any length are
    compared by inner products, so that a longer one may be nearer.
    """

    tolerance: ClassVar[float] = 1e-4
    found: ClassVar[float] = 1.0

    def model(self, folder: Path) -> ModelSpec:
        """What a recipe says of the model; `folder` is the test's own."""
        return ModelSpec("tested")

    def others(self, folder: Path) -> Sequence[Any]:
        """The kind with other options, which make other numbers of the same texts."""
        return ()

    def documents(self) -> list[str]:
        """Eight different texts, of one word to many."""
        words = _TEXT.split()
        return [" ".join(words[i % 5 : i % 5 + 1 + 2 * i] * (1 + i // 6)) for i in range(8)]

    def asked(self) -> list[str]:
        """Three queries."""
        return ["old river", "the blue harbor and a bridge", "engines"]

    def _opened(self, folder: Path, to_train: bool = False) -> Any:
        return self.make(folder).load(self._resolved(folder), "cpu", None if to_train else "fp32")

    def _resolved(self, folder: Path, spec: ModelSpec | None = None, family: Any = None) -> ResolvedModel:
        return resolve(spec or self.model(folder), fetch=True, family=family or self.make(folder))

    def _encode(self, encoder: Any, texts: Sequence[str], kind: str = "document", **options: Any) -> Any:
        from hardneg.encoders.inference import EncodeOptions

        return encoder.encode(texts, kind, EncodeOptions(precision="fp32", **options))

    def _alike(self, one: Encoded, other: Encoded, text: str) -> None:
        rule(alike(one, other, self.tolerance), text)

    def test_says_what_it_makes(self, tmp_path: Path) -> None:
        """`form` and `trainable` are class variables, and the encoder has its own."""
        kind = type(self.make(tmp_path))
        rule(getattr(kind, "form", None) in FORMS, f"`form` is one of {', '.join(FORMS)}", repr(kind))
        rule(type(getattr(kind, "trainable", None)) is bool, "`trainable` is True or False", repr(kind))
        encoder = self._opened(tmp_path)
        rule(isinstance(encoder.spec, FullSpec), "an encoder has its whole `spec`", encoder.spec)
        rule(encoder.dimension > 0 and encoder.block > 0, "`dimension` and `block` are above 0")

    def test_what_is_known_of_a_model(self, tmp_path: Path) -> None:
        """Before it is opened, for a plan."""
        family, model = self.make(tmp_path), self._resolved(tmp_path)
        full, lookup, shape = family.full(model), family.look_up(model), family.shape(model)
        rule(isinstance(full, FullSpec), "`full` gives a FullSpec", type(full))
        rule(isinstance(lookup, Lookup), "`look_up` gives a Lookup", type(lookup))
        rule(shape.hidden > 0 and shape.layers >= 0 and shape.weights >= 0, "a shape has sizes", shape)
        rule(self._opened(tmp_path).spec == full, "an opened model has the spec that `full` gives")

    def test_the_digest_names_what_it_makes(self, tmp_path: Path) -> None:
        """The same at each call; another for other prompts and options."""
        spec, name = self.model(tmp_path), self._resolved(tmp_path).digest
        rule(bool(re.fullmatch("[0-9a-f]{32}", name)), "a digest has 32 hexadecimal digits", repr(name))
        rule(self._resolved(tmp_path).digest == name, "the same model has the same digest")
        told = "what changes a text's numbers changes the digest"
        prompted = self._resolved(tmp_path, replace(spec, query_prompt="other words: "))
        rule(prompted.digest != name, told, "another prompt")
        for other in self.others(tmp_path):
            rule(self._resolved(tmp_path, spec, other).digest != name, told, f"{other} for {self.make(tmp_path)}")

    def test_its_module_is_light(self, tmp_path: Path) -> None:
        """A plan imports it: what is heavy is imported where a model is opened."""
        program = (
            f"import sys, {type(self.make(tmp_path)).__module__}\nprint(*[n for n in {HEAVY!r} if n in sys.modules])"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        rule(not done.stdout.strip(), "importing a kind's module loads nothing heavy", done.stdout.strip())

    def test_encodes_in_order(self, tmp_path: Path) -> None:
        """Each text for itself: in any order, in any batch and window, and again."""
        encoder, texts = self._opened(tmp_path), self.documents()
        form = type(self.make(tmp_path)).form
        for kind in ("query", "document"):
            found = self._encode(encoder, texts, kind)
            check_encoded(found, form, len(texts), encoder.dimension)
            text = "what a text is encoded into depends on it alone, not on"
            backwards = self._encode(encoder, texts[::-1], kind)
            self._alike(backwards[np.arange(len(texts))[::-1]], found, f"{text} the order")
            self._alike(self._encode(encoder, texts, kind, window=_BLOCK), found, f"{text} the window")
            self._alike(self._encode(encoder, texts, kind, tokens_per_batch=8), found, f"{text} the batch")
            for number in (0, len(texts) - 1):
                own = found[number : number + 1]
                self._alike(self._encode(encoder, texts[number : number + 1], kind), own, f"{text} the others")
                self._alike(self._encode(encoder, [texts[number]] * 2, kind)[1:], own, f"{text} its copies")

    def test_empty_texts(self, tmp_path: Path) -> None:
        """A text of no words is no error; no text gives nothing, in the right form."""
        encoder, form = self._opened(tmp_path), type(self.make(tmp_path)).form
        for texts in ([""], ["a river", "", " \n", "a bridge"], []):
            for kind in ("query", "document"):
                check_encoded(self._encode(encoder, texts, kind), form, len(texts), encoder.dimension)

    def test_windows_stream(self, tmp_path: Path) -> None:
        """Window by window, in order, with few of them held; all texts are told of as they are done."""
        from hardneg.encoders.inference import EncodeOptions

        encoder, texts = self._opened(tmp_path), self.documents()
        taken: list[int] = []
        done: list[int] = []

        def parts() -> Any:
            for start in range(0, len(texts), 2):
                taken.append(start)
                yield start, texts[start : start + 2]

        windows = TextWindows(parts(), len(texts))
        found = []
        for number, (start, part) in enumerate(
            encoder.encode_windows(windows, "document", EncodeOptions(precision="fp32"), done.append)
        ):
            rule(start == 2 * number, "windows are given in order, by the number of their first text", start)
            rule(len(taken) <= number + 3, "few windows are read before one is given", len(taken))
            found.append(part)
        rule(sum(done) == len(texts), "`advance` is told of each text once", done)
        joined = np.concatenate(found) if isinstance(found[0], np.ndarray) else type(found[0]).join(found)
        self._alike(joined, self._encode(encoder, texts), "windows give what `encode` gives")

    def _corpus(self, folder: Path, texts: Sequence[str]) -> Corpus:
        write_corpus((Document(f"d{i}", text) for i, text in enumerate(texts)), folder / "corpus", Silent())
        return Corpus.open(folder / "corpus")

    def _write(self, encoder: Any, rows: StoredRows, folder: Path, killed_after: int | None = None) -> set[int]:
        """Writes the blocks that are not there yet; gives those that were."""
        texts = self.documents()
        with encoder.writer(folder, rows) as writer:
            there: set[int] = writer.finished_blocks()
            for number, start in enumerate(range(0, len(texts), _BLOCK)):
                if number == killed_after:
                    raise _Killed
                if number not in there:
                    writer.write_block(number, start, self._encode(encoder, texts[start : start + _BLOCK]))
            writer.write_doc_ids(rows.doc_ids)
            writer.close()
        return there

    def test_a_store_is_gone_on_with(self, tmp_path: Path) -> None:
        """After a kill between two blocks; it then holds what is held when it is written in one go."""
        from hardneg.indexes.open_store import open_store

        encoder, corpus = self._opened(tmp_path), self._corpus(tmp_path, self.documents())
        places = [tmp_path / "stopped", tmp_path / "whole"]
        stored = []
        for place, stop in zip(places, (1, None), strict=True):
            place.mkdir()
            rows = encoder.rows(corpus, None, place, Silent(), World())
            rule(not encoder.is_complete(place, rows), "an empty folder is not complete")
            if stop is not None:
                try:
                    self._write(encoder, rows, place, killed_after=stop)
                except _Killed:
                    rule(not encoder.is_complete(place, rows), "a folder that lacks blocks is not complete")
                rows = encoder.rows(corpus, None, place, Silent(), World())
            there = self._write(encoder, rows, place)
            rule(there == set(range(stop or 0)), "finished blocks are found by the next writer", there)
            rule(encoder.is_complete(place, rows), "a folder that has all blocks and was closed is complete")
            lacking = [name for name in encoder.files if not (place / name).exists()]
            rule(not lacking, "`files` names what a writer leaves", lacking)
            stored.append(open_store(place).encoded(np.arange(len(corpus))))
        self._alike(stored[0], stored[1], "a store that was gone on with holds what one holds that was not")
        self._alike(stored[1], self._encode(encoder, self.documents()), "a store holds what the documents became")

    def test_a_document_is_found(self, tmp_path: Path) -> None:
        """By exact search in what it wrote, where its score is the best."""
        from hardneg.indexes.encoded_scores import score_matrix
        from hardneg.indexes.open_store import open_store

        encoder, texts = self._opened(tmp_path), self.documents()
        corpus, place = self._corpus(tmp_path, texts), tmp_path / "store"
        place.mkdir()
        self._write(encoder, encoder.rows(corpus, None, place, Silent(), World()), place)
        encoded = self._encode(encoder, texts)
        hits, scores = open_store(place).search(encoded, 1), score_matrix(encoded, encoded)
        best = np.allclose(hits.scores[:, 0], scores.max(1), rtol=self.tolerance, atol=self.tolerance)
        rule(best, "a search finds the best score", hits.scores[:, 0])
        share = float((hits.rows[:, 0] == np.arange(len(texts))).mean())
        rule(share >= self.found, f"{self.found:.0%} of documents are nearest to their own text", f"{share:.0%}")
        queries = self._encode(encoder, self.asked(), "query")
        found = open_store(place).search(queries, 1).scores[:, 0]
        best = np.allclose(found, score_matrix(queries, encoded).max(1), rtol=self.tolerance, atol=self.tolerance)
        rule(best, "queries find the best score", found)

    def test_long_documents_are_cut_or_refused(self, tmp_path: Path) -> None:
        """A kind that cannot cut them says so."""
        from hardneg.encoders.corpus.stream import write_index
        from hardneg.encoders.inference import EncodeOptions
        from hardneg.indexes.open_store import open_store

        encoder, corpus = self._opened(tmp_path), self._corpus(tmp_path, self.documents())
        try:
            rows = encoder.rows(corpus, Segments(12, count=3), tmp_path, Silent(), World())
        except ModelError as error:
            rule("segments" in str(error) and "\n" not in str(error), "what cannot be cut is told in a line", error)
            return
        rule(len(rows) > len(corpus), "long documents have several rows", len(rows))
        place = tmp_path / "store"
        place.mkdir()
        write_index([encoder], rows, place, EncodeOptions(precision="fp32"), Silent())
        held = open_store(place).encoded(np.arange(len(rows)))
        check_encoded(held, type(self.make(tmp_path)).form, len(rows), encoder.dimension)

    def test_what_cannot_learn_says_so(self, tmp_path: Path) -> None:
        """In a line; what can learn is an `Encoder`."""
        from hardneg.encoders.open.resolved import learner

        encoder = self._opened(tmp_path, to_train=True)
        try:
            learner(encoder)
        except ModelError as error:
            rule(not type(self.make(tmp_path)).trainable, "what is `trainable` can learn", error)
        else:
            rule(type(self.make(tmp_path)).trainable, "what can learn is `trainable`")
