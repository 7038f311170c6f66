"""The model card that goes with a trained encoder."""

from collections.abc import Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING

from hardneg.encoders.open.contract import tokens_read
from hardneg.encoders.open.pyserini_lines import IMPACT_SCALE, ModelReference, dense_encoder, sparse_encoder
from hardneg.encoders.open.source import ON_HUB
from hardneg.records import HUB_ID

if TYPE_CHECKING:
    from hardneg.encoders.encoder import Encoder

_FAMILIES = {"vectors": "dense", "weights": "sparse", "token-vectors": "late-interaction"}
_Scores = Mapping[str, Mapping[str, float]]


def model_card(encoder: "Encoder", facts: Mapping[str, object]) -> str:
    """Markdown with a model's origin and how to open it.

    facts: in the order to be shown, such as `Base model`, `Dataset`, `Loss`, `Negatives`; an absolute
        path is cut to its last part.
    """
    shown = {name: without_folder(value) for name, value in facts.items()}
    family = _FAMILIES[encoder.representation.form]
    title = f"# {family.capitalize()} retriever trained with hard negatives"
    parts = [_front_matter(shown, family), title, _facts(encoder, shown), "## Use"]
    return "\n\n".join([*parts, _sentence_transformers(encoder), _pyserini(encoder)]) + "\n"


def with_scores(card: str, scores: _Scores, over: str) -> str:
    """Adds a table of scores, by row and metric, before the last section of a card; over: what they are means over."""
    before, heading, after = card.rpartition("## Use")
    return f"{before}## Scores\n\nMeans over {over}.\n\n{scores_table(scores)}\n\n{heading}{after}"


def without_folder(value: object) -> str:
    """The value as text; an absolute path is cut to its last part."""
    text = str(value)
    return PurePath(text).name if PurePath(text).is_absolute() else text


def _front_matter(facts: Mapping[str, str], family: str) -> str:
    lines = ["library_name: sentence-transformers", "pipeline_tag: sentence-similarity"]
    base = facts.get("Base model", "")
    base = ON_HUB.get(base, base)
    if "/" in base and HUB_ID.fullmatch(base):
        lines.append(f"base_model: {base}")
    lines.append(f"tags: [sentence-transformers, {family}-retrieval, hard-negatives, hardneg]")
    return "\n".join(["---", *lines, "---"])


def _facts(encoder: "Encoder", facts: Mapping[str, str]) -> str:
    spec = encoder.spec
    query, document = (tokens_read(length) for length in (spec.query_length, spec.document_length))
    own = {
        "Vectors": f"{encoder.dimension} dimensions, compared by {spec.similarity}",
        "Tokens read": f"{query} of a query, {document} of a document",
    }
    if spec.typed:
        own["Token types"] = f"{spec.query_token_type} of a query, {spec.document_token_type} of a document"
    for name, prompt in (("Query prompt", spec.query_prompt), ("Document prompt", spec.document_prompt)):
        if prompt:
            own[name] = f"`{prompt}`"
    return "\n".join(f"- {name}: {value}" for name, value in {**facts, **own}.items())


def scores_table(scores: _Scores) -> str:
    """A table in Markdown of scores by row and metric."""
    metrics = list(dict.fromkeys(metric for row in scores.values() for metric in row))
    lines = [["", *metrics], ["---"] * (len(metrics) + 1)]
    for name, row in scores.items():
        lines.append([name, *(f"{row[metric]:.4f}" if metric in row else "" for metric in metrics)])
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def _sentence_transformers(encoder: "Encoder") -> str:
    class_name = type(encoder.module).__name__
    return f"""\
```python
from sentence_transformers import {class_name}

model = {class_name}("path/to/this/folder")
queries = model.encode_query(["a question"])  # hardneg reads {tokens_read(encoder.spec.query_length)} tokens of them
documents = model.encode_document(["a passage"])
scores = model.similarity(queries, documents)
```"""


_TOKEN_VECTORS = "Pyserini has no index of a vector a token; hardneg's `multi-vector` indexes search them."


def _pyserini(encoder: "Encoder") -> str:
    form, model = encoder.representation.form, ModelReference("path/to/this/folder")
    program = dense_encoder(encoder, model) if form == "vectors" else sparse_encoder(model, IMPACT_SCALE)
    if form == "token-vectors" or program is None:
        return _TOKEN_VECTORS
    imports, searcher = "from pyserini.search.faiss import FaissSearcher", 'FaissSearcher("path/to/its/index", encoder)'
    if form == "weights":
        imports = "from pyserini.search.lucene import LuceneImpactSearcher"
        searcher = 'LuceneImpactSearcher("path/to/its/index", encoder, min_idf=-1)'
    lines = program.then(imports, f"searcher = {searcher}", 'hits = searcher.search("a question", k=10)')
    return f"```python\n{lines.text()}\n```"
