"""The lines of Python that make an encoder of queries for Pyserini's searchers, which gives what hardneg's own gives.

Pyserini's `AutoQueryEncoder` stands for a transformer with mean or CLS pooling, with a normalisation or without; for
all else a class of a few lines asks sentence-transformers.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hardneg.encoders.encoder import Encoder

ROUNDED = "model_kwargs"
"""The option that has weights of fewer digits opened as float32."""

_PLAIN = ("mean", "cls")


@dataclass(frozen=True)
class Program:
    """Lines of Python: imports, and what comes after them; `name` is what they leave behind, such as `encoder`."""

    imports: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    name: str = "encoder"

    def then(self, imports: str, *lines: str) -> "Program":
        """The same with more lines behind."""
        return Program((*self.imports, imports), (*self.lines, *lines), self.name)

    def text(self) -> str:
        """All of it, imports first and in order."""
        apart = 2 if self.lines[0].startswith("class ") else 1
        return "\n".join([*sorted(set(self.imports)), *[""] * apart, *self.lines])


@dataclass(frozen=True)
class ModelPlace:
    """Where a model's folder is, as the lines name it, and what it does not say of the model.

    transformer: the folder of the transformer that reads queries, or the same. options: what the model's class is to be
    told. attributes: what is to be set of the opened model. lacking: what of the network the folder has not. spec: what
    hardneg opens it by, where sentence-transformers does not give the same vectors; empty where it does.
    """

    folder: str
    transformer: str = ""
    options: Mapping[str, object] = field(default_factory=dict)
    attributes: Mapping[str, object] = field(default_factory=dict)
    lacking: str = ""
    spec: Mapping[str, object] = field(default_factory=dict)


def dense_encoder(encoder: "Encoder", place: ModelPlace) -> Program | None:
    """The lines for `FaissSearcher`: Pyserini's own encoder where it gives the same vectors; None where none does."""
    pooling = None if ROUNDED in place.options else _plain_pooling(encoder)
    if pooling is not None:
        return _auto(encoder, place, pooling)
    if place.spec:
        return _of_hardneg(place.spec)
    return None if place.lacking else _of_sentence_transformers(encoder, place)


def sparse_encoder(place: ModelPlace, scale: float) -> Program | None:
    """The lines for `LuceneImpactSearcher` over an index of weights times `scale`, rounded; None where none do."""
    if place.lacking:
        return None
    given = _given(place.options)
    return Program(
        ("from pyserini.encode import QueryEncoder", "from sentence_transformers import SparseEncoder"),
        (
            "class Weights(QueryEncoder):",
            "    def encode(self, query, **options):",
            "        weights = self.model.decode(self.model.encode_query(query))",
            f"        return {{term: round(weight * {scale:g}) for term, weight in weights}}",
            "",
            "",
            "encoder = Weights()",
            f'encoder.model = SparseEncoder({quoted(place.folder)}, device="cpu"{given})',
            *_set("encoder.model", place.attributes),
        ),
    )


def _plain_pooling(encoder: "Encoder") -> str | None:
    """`mean` or `cls` where Pyserini's `AutoQueryEncoder` gives the same vectors, else None."""
    spec = encoder.spec
    first, *rest = encoder.module.children()
    prompt = spec.query_prompt
    own = [part for part in rest if type(part).__name__ != "Normalize"]
    mode = getattr(own[0], "pooling_mode", None) if len(own) == 1 else None
    config = getattr(getattr(first, "model", None), "config", None)
    whole = (
        mode in _PLAIN
        and not (spec.typed or encoder.twins or spec.adapter or spec.truncate_dim)
        and (not prompt or (prompt.endswith(" ") and prompt.strip() != "" and own[0].include_prompt))
        and config is not None
        and not config.is_encoder_decoder
        and "message" not in getattr(first, "modality_config", ())
        and not getattr(first, "do_lower_case", False)
    )
    return str(mode) if whole else None


def quoted(text: str) -> str:
    """The text as a string of Python."""
    return json.dumps(text, ensure_ascii=False)


def _auto(encoder: "Encoder", place: ModelPlace, pooling: str) -> Program:
    spec = encoder.spec
    options = f'pooling="{pooling}", l2_norm={spec.similarity == "cosine"}'
    if spec.query_prompt:
        options += f", prefix={quoted(spec.query_prompt.removesuffix(' '))}"
    return Program(
        ("from pyserini.encode import AutoQueryEncoder",),
        (
            f"encoder = AutoQueryEncoder({quoted(place.transformer or place.folder)}, {options})",
            f"encoder.tokenizer.model_max_length = {spec.query_length}  # tokens of a query that are read",
        ),
    )


def _of_sentence_transformers(encoder: "Encoder", place: ModelPlace) -> Program:
    normalised = ", normalize_embeddings=True" if encoder.spec.similarity == "cosine" else ""
    return Program(
        ("from pyserini.encode import QueryEncoder", "from sentence_transformers import SentenceTransformer"),
        (
            "class Vectors(QueryEncoder):",
            "    def encode(self, query, **options):",
            f"        return self.model.encode_query(query{normalised})",
            "",
            "",
            "encoder = Vectors()",
            f'encoder.model = SentenceTransformer({quoted(place.folder)}, device="cpu"{_given(place.options)})',
            *_set("encoder.model", place.attributes),
        ),
    )


def _of_hardneg(spec: Mapping[str, object]) -> Program:
    told = ", ".join(f"{quoted(name)}: {_literal(value)}" for name, value in spec.items())
    return Program(
        ("from hardneg.plugin import load_encoder, spec_from", "from pyserini.encode import QueryEncoder"),
        (
            "class Vectors(QueryEncoder):",
            "    def encode(self, query, **options):",
            '        return self.model.encode([query], "query")[0]',
            "",
            "",
            "encoder = Vectors()",
            f'encoder.model = load_encoder(spec_from({{{told}}}), "cpu", "fp32")',
        ),
    )


def _literal(value: object) -> str:
    return quoted(value) if isinstance(value, str) else repr(value)


def _given(options: Mapping[str, object]) -> str:
    return "".join(f", {name}={value!r}" for name, value in options.items())


def _set(name: str, attributes: Mapping[str, object]) -> list[str]:
    return [f"{name}.{attribute} = {value!r}" for attribute, value in attributes.items()]
