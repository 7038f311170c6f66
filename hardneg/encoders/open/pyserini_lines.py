"""Lines of Python that build an encoder of queries for Pyserini's searchers, with the same vectors as hardneg's own.

Pyserini's `AutoQueryEncoder` serves for a transformer with mean or CLS pooling, with or without a normalisation; for
all others a class of a few lines calls sentence-transformers.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hardneg.encoders.encoder import Encoder

ROUNDED = "model_kwargs"
"""The option that has weights of fewer digits opened as float32."""

IMPACT_SCALE = 100.0
"""The default of the index `impact`: by which weights are multiplied before they are rounded to whole numbers."""

_PLAIN = ("mean", "cls")


@dataclass(frozen=True)
class Program:
    """Lines of Python: imports and statements; name: the variable that they define, such as `encoder`."""

    imports: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    name: str = "encoder"

    def then(self, imports: str, *lines: str) -> "Program":
        """The same with more lines appended."""
        return Program((*self.imports, imports), (*self.lines, *lines), self.name)

    def text(self) -> str:
        """The program's text, imports first and sorted."""
        apart = 2 if self.lines[0].startswith("class ") else 1
        return "\n".join([*sorted(set(self.imports)), *[""] * apart, *self.lines])


@dataclass(frozen=True)
class ModelReference:
    """The folder of a model, as the lines refer to it, and what it does not declare.

    transformer: the folder of the transformer of queries, or "" for the same. options: arguments of the model's class.
    attributes: those to set on the opened model. lacking: the part of the network that the folder lacks. spec: the spec
    by which hardneg opens it, where sentence-transformers does not give the same vectors; else empty.
    """

    folder: str
    transformer: str = ""
    options: Mapping[str, object] = field(default_factory=dict)
    attributes: Mapping[str, object] = field(default_factory=dict)
    lacking: str = ""
    spec: Mapping[str, object] = field(default_factory=dict)


def dense_encoder(encoder: "Encoder", model: ModelReference) -> Program | None:
    """The lines for `FaissSearcher`, with Pyserini's own encoder if its vectors are the same; None where none is."""
    pooling = None if ROUNDED in model.options else _plain_pooling(encoder)
    if pooling is not None:
        return _auto(encoder, model, pooling)
    if model.spec:
        return _of_hardneg(model.spec)
    if model.lacking:
        return None
    normalised = ", normalize_embeddings=True" if encoder.spec.similarity == "cosine" else ""
    encode = (f"return self.model.encode_query(query{normalised})",)
    return _of_class("Vectors", encode, *_opened("SentenceTransformer", model))


def sparse_encoder(model: ModelReference, scale: float) -> Program | None:
    """The lines for `LuceneImpactSearcher` over an index of weights times `scale`, rounded; None where none do."""
    if model.lacking:
        return None
    encode = (
        "weights = self.model.decode(self.model.encode_query(query))",
        f"return {{term: round(weight * {scale:g}) for term, weight in weights}}",
    )
    return _of_class("Weights", encode, *_opened("SparseEncoder", model))


def _of_class(name: str, encode: tuple[str, ...], imported: str, opened: str, *more: str) -> Program:
    """A class whose `encode` is these lines, and an encoder of it with an opened model."""
    begin = (f"class {name}(QueryEncoder):", "    def encode(self, query, **options):")
    body = (*(f"        {line}" for line in encode), "", "")
    end = (f"encoder = {name}()", f"encoder.model = {opened}", *more)
    return Program((imported, "from pyserini.encode import QueryEncoder"), (*begin, *body, *end))


def _opened(class_name: str, model: ModelReference) -> tuple[str, ...]:
    """The import of a class of sentence-transformers, the opened model, and what is set on it."""
    options = "".join(f", {name}={value!r}" for name, value in model.options.items())
    opened = f'{class_name}({quoted(model.folder)}, device="cpu"{options})'
    more = (f"encoder.model.{attribute} = {value!r}" for attribute, value in model.attributes.items())
    return (f"from sentence_transformers import {class_name}", opened, *more)


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
        and not getattr(first, "do_lower_case", False)
    )
    return str(mode) if whole else None


def quoted(text: str) -> str:
    """The text as a string of Python."""
    return json.dumps(text, ensure_ascii=False)


def _auto(encoder: "Encoder", model: ModelReference, pooling: str) -> Program:
    spec = encoder.spec
    options = f'pooling="{pooling}", l2_norm={spec.similarity == "cosine"}'
    if spec.query_prompt:
        options += f", prefix={quoted(spec.query_prompt.removesuffix(' '))}"
    return Program(
        ("from pyserini.encode import AutoQueryEncoder",),
        (
            f"encoder = AutoQueryEncoder({quoted(model.transformer or model.folder)}, {options})",
            f"encoder.tokenizer.model_max_length = {spec.query_length}  # tokens of a query that are read",
        ),
    )


def _of_hardneg(spec: Mapping[str, object]) -> Program:
    literals = {name: quoted(value) if isinstance(value, str) else repr(value) for name, value in spec.items()}
    values = ", ".join(f"{quoted(name)}: {literal}" for name, literal in literals.items())
    opened = f'load_encoder(spec_from({{{values}}}), "cpu", "fp32")'
    encode = ('return self.model.encode([query], "query")[0]',)
    return _of_class("Vectors", encode, "from hardneg.plugin import load_encoder, spec_from", opened)
