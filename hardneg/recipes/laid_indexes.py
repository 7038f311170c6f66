"""The indexes of a run folder: where each is, how it was built, the model of its queries; opened to be searched."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardneg.encoders.open.resolved import load_encoder, read_spec
from hardneg.encoders.protocol import EncodeOptions
from hardneg.encoders.spec import ModelSpec
from hardneg.fields import Trait
from hardneg.formats.segments import DELIMITER
from hardneg.formats.vectors import DocIds
from hardneg.indexes.candidate_scoring import pooled
from hardneg.indexes.exact import ExactOptions, ExactSearcher
from hardneg.indexes.open_store import DenseIndex, form_in, open_store
from hardneg.protocols import Searcher
from hardneg.recipes.load import Recipe, check_recipe
from hardneg.recipes.run_folder import read_lock
from hardneg.records import DOC_IDS, INDEX_FOLDER, LOCK, MODEL_FOLDER, SHARDS, START, Encoded, Hits
from hardneg.store import Artifact, Store


@dataclass(frozen=True)
class LaidIndex:
    """An index of a finished recipe.

    stage: the one that made it. backend: its plugin, None where an encode stage made it. model: what encodes its
    queries, None where it is searched with texts, or with vectors of another program. segments: whether documents have
    several vectors.
    """

    stage: str
    folder: Path
    backend: Any
    model: ModelSpec | None
    segments: bool


def laid_indexes(folder: Path, store: Store) -> list[LaidIndex]:
    """The indexes of a run folder: the one that the recipe hands out, then those of which the store has the artifacts.

    Raises:
        DataError: it is no run folder, or its lock file is damaged.
        RecipeError: the recipe is not one of this hardneg's.
    """
    lock = read_lock(folder)
    recipe = check_recipe(lock["tree"], folder / LOCK, lock["preset"])
    named = lock["keys"].items()
    artifacts = {name: artifact for name, key in named if key.isalnum() and (artifact := store.find(key))}
    indexes = dict(_indexes(recipe, folder, artifacts))
    first = recipe.outputs.get("index", "")
    return [indexes[name] for name in sorted(indexes, key=lambda name: name != first)]


def _indexes(recipe: Recipe, folder: Path, artifacts: Mapping[str, Artifact]) -> Iterator[tuple[str, LaidIndex]]:
    for name, spec in recipe.stages.items():
        index_folder = laid_part(recipe, folder, artifacts, name, INDEX_FOLDER) if "index" in spec.makes else None
        if index_folder is None:
            continue
        view = recipe.view(name)
        maker, model = view.query_model(name), None
        if maker == START:
            model = recipe.model
        elif maker and (model_folder := laid_part(recipe, folder, artifacts, maker, MODEL_FOLDER)):
            model = read_spec(model_folder)
        yield name, LaidIndex(name, index_folder, view.plugin("backend"), model, Trait.SEGMENTS in spec.traits(view))


def laid_part(recipe: Recipe, folder: Path, artifacts: Mapping[str, Artifact], name: str, output: str) -> Path | None:
    """Where a model or an index that a stage makes is: in the run folder, or in the store; None where in neither."""
    if recipe.outputs.get(output) == name and (folder / output).is_dir():
        return folder / output
    inner = recipe.stages[name].parts.get(output, ".")
    return artifacts[name].path / inner if name in artifacts else None


@dataclass(frozen=True)
class OpenedIndex:
    """An index that is searched with texts.

    names: the document ids of the rows. encoder: the model of its queries; None for an index of texts.
    """

    searcher: Searcher
    names: Sequence[str]
    encoder: Any

    @classmethod
    def open(cls, laid: LaidIndex, device: str | None) -> "OpenedIndex":
        """The index and the model of its queries.

        Raises:
            ArtifactError: the index is missing or damaged.
            ModelError: the model cannot be opened.
        """
        options, numbers, met = ExactOptions(device=device), dict[str, int](), list[str]()

        def rows(doc_ids: Sequence[str]) -> NDArray[np.int64]:
            """Numbers ids in the order in which they are met, for an index that names its documents."""
            for doc_id in doc_ids:
                if doc_id not in numbers:
                    numbers[doc_id] = len(met)
                    met.append(doc_id)
            return np.array([numbers[doc_id] for doc_id in doc_ids], np.int64)

        searcher: Searcher
        if laid.backend is not None:
            searcher = laid.backend.open(laid.folder, rows)
        elif form_in(laid.folder) == "vectors" and not (laid.folder / SHARDS).exists():
            searcher = DenseIndex.open(laid.folder).searcher
        else:
            searcher = open_store(laid.folder, options)
        if isinstance(searcher, ExactSearcher):
            searcher = searcher.using(options, None)
        names: Sequence[str] = DocIds(laid.folder / DOC_IDS)
        if laid.backend is not None and getattr(laid.backend, "input", None) == "texts":
            names = met
        elif (laid.folder / SHARDS).exists():
            names = DenseIndex.open(laid.folder).doc_ids
        if laid.segments:
            names = list(dict.fromkeys(name.rpartition(DELIMITER)[0] for name in names))
            searcher = pooled(searcher, laid.folder, names)
        return cls(searcher, names, None if laid.model is None else load_encoder(laid.model, device, "fp32"))

    def search(self, texts: Sequence[str], depth: int) -> Hits:
        """The best documents of each text, as rows."""
        wanted: Sequence[str] | Encoded = texts
        if self.encoder is not None:
            wanted = self.encoder.encode(texts, "query", EncodeOptions(precision="fp32"))
        return self.searcher.search(wanted, depth)
