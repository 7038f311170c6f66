"""A folder of a transformer opened as a network that scores pairs, with a fresh head where it has none."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from hardneg.errors import ModelError
from hardneg.models.files import check_files, read_json
from hardneg.models.modules import quiet
from hardneg.models.weights import load_options
from hardneg.seeding import derive_seed

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder

_CLASSIFIER = "ForSequenceClassification"


def load_classifier(folder: Path, length: int, outputs: int | None = None, seed: int = 0) -> "CrossEncoder":
    """The network in a folder, on the CPU, with float32 weights, in evaluation mode.

    length: how many tokens of a pair are read. outputs: of the head; None keeps what the folder has, or makes one.
    seed: of the weights that the folder lacks, as those of a fresh head.

    Raises:
        ModelError: the folder holds no model that can be opened so.
    """
    from safetensors import SafetensorError
    from sentence_transformers import CrossEncoder
    from sentence_transformers.base.modules import Transformer

    check_files(folder)
    labels = outputs or own_outputs(folder)
    local = {"local_files_only": True, "trust_remote_code": False}
    weights = {"dtype": torch.float32, "ignore_mismatched_sizes": True, **load_options(folder)}
    with quiet(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(seed, "weights that the files lack") >> 1)
        try:
            transformer = Transformer(
                str(folder),
                transformer_task="sequence-classification",
                model_kwargs=weights | local,
                processor_kwargs=dict(local),
                config_kwargs={**local, "num_labels": labels},
            )
        except (OSError, ValueError, RuntimeError, ImportError, LookupError, SafetensorError) as error:
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise ModelError(f"reranker {folder}: cannot be opened ({reason}): check the folder") from error
    network: CrossEncoder = CrossEncoder(modules=[transformer], device="cpu", activation_fn=nn.Sigmoid())
    _set_length(network, length, folder)
    return network.eval()


def own_outputs(folder: Path) -> int:
    """How many outputs the folder's classifier has; one where it holds none."""
    config: dict[str, Any] = read_json(folder / "config.json")
    if not any(str(name).endswith(_CLASSIFIER) for name in config.get("architectures") or ()):
        return 1
    return len(config.get("id2label") or {}) or int(config.get("num_labels", 2))


def _set_length(network: "CrossEncoder", length: int, folder: Path) -> None:
    most = network.max_seq_length
    if most is not None and most < length:
        raise ModelError(f"reranker {folder}: reads at most {most} tokens: length is {length}, lower it")
    network.max_seq_length = length
