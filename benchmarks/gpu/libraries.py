"""What else is on the machine: faiss beside torch, and 16-bit numbers of either kind."""

import copy
from importlib import import_module
from importlib.metadata import packages_distributions, version

import numpy as np
import torch
from gpu.material import encoder, seconds, texts
from gpu.setting import Figures, Setting, expect

from hardneg.indexes.exact import ExactOptions, search_exact


def faiss(setting: Setting) -> Figures:
    """One package alone owns the module; where it knows GPUs, its ids are torch's and both go on working."""
    library = import_module("faiss")
    owners = sorted(set(packages_distributions().get("faiss", [])))
    expect(len(owners) < 2, f"{' and '.join(owners)} both own the module faiss: uninstall one")
    found: Figures = {name: version(name) for name in owners}
    found |= {"torch": torch.__version__, "its CUDA": str(torch.version.cuda)}
    cards = library.get_num_gpus() if hasattr(library, "StandardGpuResources") else 0
    found["GPUs that faiss sees"] = cards
    if cards and setting.gpu:
        draws = np.random.default_rng(0)
        vectors, queries = (draws.standard_normal((count, 64), np.float32) for count in (100_000, 200))
        index = library.index_cpu_to_gpu(library.StandardGpuResources(), 0, library.IndexFlatIP(64))
        index.add(vectors)
        rows = index.search(queries, 100)[1]
        same = float((rows == search_exact(vectors, queries, 100, ExactOptions(device=setting.device)).rows).mean())
        expect(same > 0.999, f"{1 - same:.2%} of the ids are others than torch's")
        found["same ids as torch"] = round(same, 6)
    return found


def halves(setting: Setting) -> Figures:
    """Products in each kind of numbers, and whether vectors in float16 would serve a card without bfloat16."""
    size, found = setting.size(8192, 256), Figures()
    if setting.gpu:
        found["capability"] = ".".join(map(str, torch.cuda.get_device_capability()))
        found["card"] = torch.cuda.get_device_name()
    for name in ("float32", "bfloat16", "float16"):
        square = torch.randn(size, size, device=setting.device).to(getattr(torch, name))
        square @ square
        taken = seconds(lambda square=square: square @ square, setting)
        found[f"{name}, tera-operations/s"] = round(2 * size**3 / taken / 1e12, 3)
    model, passages = encoder(setting), texts(64, 60)
    exact = model.module.encode(passages, convert_to_tensor=True, show_progress_bar=False).float()
    half = copy.deepcopy(model.module).to(torch.float16)
    vectors = half.encode(passages, convert_to_tensor=True, show_progress_bar=False).float()
    cosine = float(torch.nn.functional.cosine_similarity(vectors, exact).mean())
    expect(cosine > 0.999, f"float16: mean cosine {cosine:.6f}")
    return found | {"float16, cosine": round(cosine, 6)}
