"""The model card of a trained encoder, and Python code that builds its query encoder for Pyserini.

The code encodes queries exactly like hardneg: with `AutoQueryEncoder` for a transformer with mean or CLS pooling,
normalised or not, and otherwise with a class that calls sentence-transformers.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from hardneg.encoders.open import contract, model_files
from hardneg.records import HUB_ID

ROUNDED = "model_kwargs"
"""The model option that makes a program open half-precision weights as float32."""
IMPACT_SCALE = 100.0
"""The default `scale` of the index `impact`: the factor applied to weights before rounding to integers."""

_FAMILIES = {"vectors": "dense", "weights": "sparse", "token-vectors": "late-interaction"}
_Scores = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class Program:
    """A Python program: imports and statements."""

    imports: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()

    def then(self, imports: str, *lines: str) -> "Program":
        """Return the program with another import line and further statements appended."""
        return Program((*self.imports, imports), (*self.lines, *lines))

    def text(self) -> str:
        """Return the source code of the program, starting with sorted imports."""
        apart = 2 if self.lines[0].startswith("class ") else 1
        return "\n".join([*sorted(set(self.imports)), *[""] * apart, *self.lines])


@dataclass(frozen=True)
class ModelReference:
    """The model folder that a program opens, and the settings that the folder does not declare.

    transformer: the folder of the query transformer, or "" for the same folder. options: arguments of the model class.
    attributes: attributes to set on the opened model. lacking: a description of what the folder is missing. spec:
    the spec with which hardneg opens the model, if sentence-transformers would compute other vectors; else empty.
    """

    folder: str
    transformer: str = ""
    options: Mapping[str, object] = field(default_factory=dict)
    attributes: Mapping[str, object] = field(default_factory=dict)
    lacking: str = ""
    spec: Mapping[str, object] = field(default_factory=dict)


def quoted(text: str) -> str:
    """Return the text as a Python string literal."""
    return json.dumps(text, ensure_ascii=False)


def dense_encoder(encoder: Any, model: ModelReference) -> Program | None:
    """Return a program to encode queries for `FaissSearcher`; None if no program computes the same vectors."""
    spec, cosine = encoder.spec, encoder.spec.similarity == "cosine"
    pooling = None if ROUNDED in model.options else _plain_pooling(encoder)
    if pooling is not None:
        options = f'pooling="{pooling}", l2_norm={cosine}'
        if spec.query_prompt:
            options += f", prefix={quoted(spec.query_prompt.removesuffix(' '))}"
        opened = f"encoder = AutoQueryEncoder({quoted(model.transformer or model.folder)}, {options})"
        length = f"encoder.tokenizer.model_max_length = {spec.query_length}  # the query length in tokens"
        return Program(("from pyserini.encode import AutoQueryEncoder",), (opened, length))
    if model.spec:
        pairs = ((name, quoted(value) if isinstance(value, str) else repr(value)) for name, value in model.spec.items())
        values = ", ".join(f"{quoted(name)}: {literal}" for name, literal in pairs)
        opened = f'load_encoder(spec_from({{{values}}}), "cpu", "fp32")'
        encode = 'return self.model.encode([query], "query")[0]'
        return _of_class("Vectors", (encode,), "from hardneg.plugin import load_encoder, spec_from", opened)
    if model.lacking:
        return None
    normalised = ", normalize_embeddings=True" if cosine else ""
    encode = f"return self.model.encode_query(query{normalised})"
    return _of_class("Vectors", (encode,), *_opened("SentenceTransformer", model))


def sparse_encoder(model: ModelReference, scale: float) -> Program | None:
    """Return a program for `LuceneImpactSearcher` that scales query weights by `scale`; None if files are missing."""
    if model.lacking:
        return None
    encode = (
        "weights = self.model.decode(self.model.encode_query(query))",
        f"return {{term: round(weight * {scale:g}) for term, weight in weights}}",
    )
    return _of_class("Weights", encode, *_opened("SparseEncoder", model))


def _of_class(name: str, encode: tuple[str, ...], imported: str, opened: str, *more: str) -> Program:
    begin = (f"class {name}(QueryEncoder):", "    def encode(self, query, **options):")
    body = (*(f"        {line}" for line in encode), "", "")
    end = (f"encoder = {name}()", f"encoder.model = {opened}", *more)
    return Program((imported, "from pyserini.encode import QueryEncoder"), (*begin, *body, *end))


def _opened(class_name: str, model: ModelReference) -> tuple[str, ...]:
    options = "".join(f", {name}={value!r}" for name, value in model.options.items())
    opened = f'{class_name}({quoted(model.folder)}, device="cpu"{options})'
    more = (f"encoder.model.{attribute} = {value!r}" for attribute, value in model.attributes.items())
    return (f"from sentence_transformers import {class_name}", opened, *more)


def _plain_pooling(encoder: Any) -> str | None:
    spec, prompt = encoder.spec, encoder.spec.query_prompt
    first, *rest = encoder.module.children()
    own = [part for part in rest if type(part).__name__ != "Normalize"]
    mode = getattr(own[0], "pooling_mode", None) if len(own) == 1 else None
    config = getattr(getattr(first, "model", None), "config", None)
    whole = (
        mode in ("mean", "cls")
        and not (spec.typed or encoder.twins or spec.adapter or spec.truncate_dim)
        and (not prompt or (prompt.endswith(" ") and prompt.strip() != "" and own[0].include_prompt))
        and config is not None
        and not config.is_encoder_decoder
        and not getattr(first, "do_lower_case", False)
    )
    return str(mode) if whole else None


def model_card(encoder: Any, facts: Mapping[str, object]) -> str:
    """Return a Markdown model card that describes where an `Encoder` comes from and how to open it.

    facts: list items by name, such as `Base model` or `Loss`, in order; absolute paths are cut to their last part.
    """
    spec, form, class_name = encoder.spec, encoder.representation.form, type(encoder.module).__name__
    shown, family = {name: without_folder(value) for name, value in facts.items()}, _FAMILIES[form]
    base = model_files.ON_HUB.get(shown.get("Base model", ""), shown.get("Base model", ""))
    named = f"base_model: {base}\n" if "/" in base and HUB_ID.fullmatch(base) else ""
    query, document = (contract.tokens_read(length) for length in (spec.query_length, spec.document_length))
    shown["Vectors"] = f"{encoder.dimension} dimensions, compared by {spec.similarity}"
    shown["Tokens read"] = f"{query} of a query, {document} of a document"
    if spec.typed:
        shown["Token types"] = f"{spec.query_token_type} of a query, {spec.document_token_type} of a document"
    prompts = {"Query prompt": spec.query_prompt, "Document prompt": spec.document_prompt}
    shown |= {name: f"`{prompt}`" for name, prompt in prompts.items() if prompt}
    lines = "\n".join(f"- {name}: {value}" for name, value in shown.items())
    return f"""\
---
library_name: sentence-transformers
pipeline_tag: sentence-similarity
{named}tags: [sentence-transformers, {family}-retrieval, hard-negatives, hardneg]
---

# {family.capitalize()} retriever trained with hard negatives

{lines}

## Use

```python
from sentence_transformers import {class_name}

model = {class_name}("path/to/this/folder")
queries = model.encode_query(["a question"])  # hardneg reads {query} tokens of each
documents = model.encode_document(["a passage"])
scores = model.similarity(queries, documents)
```

{_pyserini(encoder)}
"""


def _pyserini(encoder: Any) -> str:
    form, model = encoder.representation.form, ModelReference("path/to/this/folder")
    program = dense_encoder(encoder, model) if form == "vectors" else sparse_encoder(model, IMPACT_SCALE)
    if form == "token-vectors" or program is None:
        return "Pyserini does not index token vectors; use hardneg's `multi-vector` indexes."
    imports, searcher = "from pyserini.search.faiss import FaissSearcher", 'FaissSearcher("path/to/its/index", encoder)'
    if form == "weights":
        imports = "from pyserini.search.lucene import LuceneImpactSearcher"
        searcher = 'LuceneImpactSearcher("path/to/its/index", encoder, min_idf=-1)'
    lines = program.then(imports, f"searcher = {searcher}", 'hits = searcher.search("a question", k=10)')
    return f"```python\n{lines.text()}\n```"


def with_scores(card: str, scores: _Scores, over: str) -> str:
    """Return a card with a table of mean scores, by row and metric, before `Use`. over: description of the queries."""
    before, heading, after = card.rpartition("## Use")
    metrics = list(dict.fromkeys(metric for row in scores.values() for metric in row))
    lines = [["", *metrics], ["---"] * (len(metrics) + 1)]
    for name, row in scores.items():
        lines.append([name, *(f"{row[metric]:.4f}" if metric in row else "" for metric in metrics)])
    table = "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
    return f"{before}## Scores\n\nMeans over {over}.\n\n{table}\n\n{heading}{after}"


def without_folder(value: object) -> str:
    """Return the value as a string, with an absolute path shortened to its last part."""
    text = str(value)
    return PurePath(text).name if PurePath(text).is_absolute() else text
