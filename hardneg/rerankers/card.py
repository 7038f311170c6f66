"""The model card that goes with a trained reranker."""

from collections.abc import Mapping

from hardneg.models.card import without_place
from hardneg.rerankers.network import PairNetwork


def reranker_card(network: PairNetwork, facts: Mapping[str, object]) -> str:
    """Markdown with what the network was made from, and how to open it; facts: in the order to be shown."""
    own = {"Tokens read": f"{network.module.max_seq_length} of a query and a document together"}
    shown = "\n".join(f"- {name}: {without_place(value)}" for name, value in {**facts, **own}.items())
    return f"""\
---
library_name: sentence-transformers
pipeline_tag: text-ranking
tags: [sentence-transformers, cross-encoder, reranker, hard-negatives, hardneg]
---

# Reranker trained with hard negatives

{shown}

## Use

```python
from sentence_transformers import CrossEncoder

model = CrossEncoder("path/to/this/folder")
{_call(network)}
```
"""


def _call(network: PairNetwork) -> str:
    pairs = 'model.predict([("a question", "a passage")]'
    if network.module.num_labels == 1:
        return f"scores = {pairs})"
    return f"scores = {pairs}, activation_fn=torch.nn.Softmax(dim=1))[:, 1]  # after import torch"
