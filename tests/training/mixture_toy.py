"""Two toy collections with the same ids in one training; run as a program, until it is killed or as one of several."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_model
from toy import BagEncoder, KilledAt, options, toy_data, write_toy

from hardneg.formats.corpus import Corpus, write_corpus
from hardneg.losses.pairwise import Star
from hardneg.records import Document
from hardneg.runtime import Silent, leave, world
from hardneg.training import examples, sources
from hardneg.training.methods.dual_encoder import train

STEPS = {"max_steps": 8, "batch_size": 5, "accumulate": 1, "learning_rate": 1e-2, "clip_norm": None}


def write_two(folder: Path) -> Path:
    """The toy collection as `one`, and in `two` its first four queries over other texts of the same ids."""
    one, two = write_toy(folder / "one"), write_toy(folder / "two")
    documents = [Document(each.doc_id, f"other {each.text}") for each in Corpus.open(one / "corpus").documents()]
    write_corpus(documents[::-1], two / "corpus", Silent())
    return folder


def two_collections(folder: Path) -> tuple[examples.TrainingData, examples.TrainingData]:
    one, two = toy_data(folder / "one"), toy_data(folder / "two")
    return one, replace(two, query_ids=two.query_ids[:4], texts=[f"other {text}" for text in two.texts[:4]])


def mixture_in(folder: Path, **more: Any) -> sources.Mixture:
    one, two = two_collections(folder)
    return sources.Mixture({"one": one, "two": two}, **more)


def main(folder: str, out: str, one_source: str, killed_at: str) -> None:
    here = world()
    encoder: Any = BagEncoder()
    encoder.module.dropout.p = 0.2 if here.size == 1 else 0.0
    progress = KilledAt(int(killed_at)) if int(killed_at) else Silent()
    mixture = mixture_in(Path(folder), temperature=2.0, one_source=one_source == "True")
    batches = train(encoder, mixture, Star(), options(**STEPS), Path(out), progress=progress)
    save_model(encoder.module, str(Path(out) / f"final-{here.rank}.safetensors"))
    np.save(Path(out) / f"losses-{here.rank}.npy", [record["loss"] for record in batches.history])
    if torch.distributed.is_initialized():
        leave()


if __name__ == "__main__":
    main(*sys.argv[1:])
