"""ADORE as a loss for sentence-transformers trainers; negatives are retrieved in each step."""

import shutil
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from torch import Tensor, nn

from hardneg.encoders.towers import list_products
from hardneg.formats.collection import StoredCollection
from hardneg.functions.arguments import whole_number
from hardneg.functions.session import Session, named_dataset, usual_store
from hardneg.indexes.exact import ExactOptions
from hardneg.indexes.open_store import open_store
from hardneg.integrations.refresher import ENCODED, RefreshRecipe, saved
from hardneg.integrations.rows import judged_queries
from hardneg.protocols import DenseSearcher
from hardneg.records import errors, layout, types
from hardneg.registry import configure, needs_of
from hardneg.runtime import barrier
from hardneg.training.examples import Examples, TrainingData
from hardneg.training.methods.adore import FORCED, Forced, label, score_batch

FOLDER = "adore"


class AdoreLoss(nn.Module):
    """A loss over the documents that a fixed index returns for each query in the current step.

    The model encodes the corpus once, when the loss is created. During training, it encodes only queries, with
    gradients. Afterwards, use the trained model for queries, and the index or the original model for documents.

    Source: Zhan et al., Optimizing Dense Retrieval Model Training with Hard Negatives (SIGIR 2021), section 6.2.
    """

    def __init__(
        self,
        model: Any,
        dataset: Any,
        arguments: Any,
        *,
        depth: int = layout.TOP_DEPTH,
        loss: str | Mapping[str, Any] = layout.LAMBDA,
        forced: Forced = FORCED,
        split: str = "train",
    ) -> None:
        """Encode the corpus, unless its vectors are already in the store.

        Args:
            model: the SentenceTransformer that training starts from.
            dataset: a dataset as in the commands' `--dataset`, such as `beir:FOLDER`.
            arguments: the trainer's arguments; the vectors are stored in `adore/` in `output_dir`.
            depth: number of documents to retrieve for each query.
            loss: name of a loss that needs only ranks, or a dict with `name` and options; `cut` defaults to `depth`.
            forced: when to add known positives to the lists: `none_retrieved`, `always` or `never`.
            split: split of the queries to train on.

        Raises:
            UsageError: an argument is invalid, the loss needs more than ranks, or a text has several vectors.
        """
        super().__init__()
        if not (isinstance(model, nn.Module) and hasattr(model, "similarity_fn_name")):
            raise errors.UsageError(f"AdoreLoss: model must be a SentenceTransformer, not {model!r:.60}")
        whole_number("depth", depth, 1)
        self.model, self.depth, self.forced = model, depth, forced
        self._cosine = model.similarity_fn_name == "cosine"
        named = {"name": loss} if isinstance(loss, str) else dict(loss)
        name = str(named.pop("name", layout.LAMBDA))
        chosen = {**({"cut": depth} if name == layout.LAMBDA else {}), **named}
        self.settings = {"loss": name, **chosen, "depth": depth, "forced": forced}
        self._loss = configure("losses", types.PluginSetting(name, chosen))
        if lacking := [part for part in needs_of(self._loss) if part != "ranks"]:
            raise errors.UsageError(f"AdoreLoss: loss {name} needs {', '.join(lacking)}; use a loss that does not")
        folder, device = Path(arguments.output_dir) / FOLDER, str(arguments.device)
        session = Session(usual_store(folder / "store"), device)
        recipe = RefreshRecipe(named_dataset(dataset, session.store), split=split)
        plan = recipe.plan(str(saved(model, folder / "model")), seed=0)
        artifacts = session.execute(plan, ENCODED).artifacts
        barrier()  # a process that finds everything in the store may finish before another has read the model
        shutil.rmtree(folder / "model", ignore_errors=True)
        self._collection, self._split = StoredCollection.open(artifacts["dataset"].path), split
        searcher: Any = open_store(artifacts[ENCODED].path, ExactOptions(device=device).for_few())
        if not isinstance(searcher, DenseSearcher):
            raise errors.UsageError("AdoreLoss: model must return one vector per text; use a SentenceTransformer")
        self._searcher = searcher

    @cached_property
    def _examples(self) -> Examples:
        """The split's queries with a positive."""
        return Examples(TrainingData(self._collection.corpus, *judged_queries(self._collection, self._split)), 0, 0)

    @property
    def dataset(self) -> Dataset:
        """The training queries in column `anchor`, and their positions, which the loss needs, in column `label`."""
        _, texts, _ = judged_queries(self._collection, self._split)
        return Dataset.from_dict({"anchor": texts, "label": list(range(len(texts)))})

    def forward(self, sentence_features: Any, labels: Tensor) -> Tensor:
        """Return the scalar loss. sentence_features: [inputs of B queries]. labels: int64 [B], rows of `dataset`."""
        queries: Tensor = self.model(next(iter(sentence_features)))["sentence_embedding"].float()
        queries = nn.functional.normalize(queries) if self._cosine else queries
        batch = self._examples.of(labels.cpu().numpy())
        lists = self._searcher.search(queries.detach().cpu().numpy(), self.depth).rows
        listed = label(lists, batch, self._collection.corpus.content_hash, self.forced)
        vectors = self._searcher.vectors(np.maximum(listed.rows, 0).reshape(-1))
        stored = torch.from_numpy(vectors).to(queries.device)
        loss: Tensor = self._loss(score_batch(list_products(queries, stored), listed, lists.shape[1], live=True))
        return loss

    def get_config_dict(self) -> dict[str, Any]:
        """Return the loss name and options, `depth` and `forced`, for the model card."""
        return dict(self.settings)

    @property
    def citation(self) -> str:
        """The citation for the model card."""
        return "Zhan et al., Optimizing Dense Retrieval Model Training with Hard Negatives (SIGIR 2021)"
