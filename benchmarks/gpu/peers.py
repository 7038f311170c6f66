"""Rates of encoding, training and search beside other ways of the same work, as shares of the device's ceilings."""

from argparse import Namespace
from collections.abc import Callable
from functools import partial
from importlib import import_module

import numpy as np
import torch
from gpu.material import finish, median_seconds, seconds, sized_model, source_texts
from gpu.setting import Failed, Figures, Setting

from hardneg.encoders.encoder import Encoder
from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.protocol import EncodeOptions
from hardneg.encoders.spec import ModelSpec
from hardneg.indexes import exact
from hardneg.indexes.exact import ExactOptions, search_exact
from hardneg.losses.infonce import InfoNCE
from hardneg.runtime.devices import float32_products
from hardneg.training.methods.dual_encoder import train
from hardneg.training.options import TrainOptions

_ENOUGH = {"fp32": 0.99999, "bf16": 0.995, "auto": 0.995}
_SLOWER = 0.9  # of the best way's rate, from which on `auto` has chosen wrongly


def share(setting: Setting, work: float, taken: float) -> Figures:
    """Floating-point operations a second of so many in so many seconds, and their share of bfloat16 products."""
    rate, most = work / taken / 1e12, setting.ceilings.get("bfloat16 TFLOP/s")
    found: Figures = {"TFLOP/s": round(rate, 1)}
    return found | ({"of the ceiling": round(rate / float(most), 3)} if most else {})


def told(found: Figures, name: str, figures: Figures) -> None:
    """Adds the figures of a way, by its name, and prints them: a piece may be cut short."""
    found.update({f"{name}, {key}": value for key, value in figures.items()})
    print(name, figures, flush=True)


def _encoder(setting: Setting, name: str) -> Encoder:
    return load_learner(
        ModelSpec(str(sized_model(setting, name)), query_length=32, document_length=128), setting.device
    )


def encode(setting: Setting) -> Figures:
    """Texts a second of passages with a usual tokenizer: tokenising alone, each way, `auto`, sentence-transformers."""
    found, wrong = Figures(), list[str]()
    for name, count in (("minilm", setting.size(60_000, 48)), ("base", setting.size(24_000, 48))):
        model, passages = _encoder(setting, name), source_texts(count)
        first = passages[:1000]
        tokens = int(model.tokenise(first, "document").offsets[-1]) / len(first)
        config = model.module[0].model.config
        work = tokens * config.num_hidden_layers * (24.0 * config.hidden_size**2 + 4.0 * tokens * config.hidden_size)

        def add(way: str, taken: float, texts: int, name: str = name, work: float = work) -> float:
            told(found, f"{name}, {way}", {"texts/s": round(texts / taken), **share(setting, work * texts, taken)})
            return texts / taken

        add("tokenising alone", seconds(partial(model.tokenise, passages, "document"), setting), count)
        speeds = _own(setting, model, passages, add, found, name)
        _peers(setting, name, passages, add)
        if speeds["auto"] < _SLOWER * max(speeds.values()) and setting.gpu:
            wrong.append(f"{name}: auto has {speeds['auto']:.0f} texts/s, the best way {max(speeds.values()):.0f}")
    if wrong:
        raise Failed("; ".join(wrong), found)
    return found


def _own(
    setting: Setting, model: Encoder, passages: list[str], add: Callable[..., float], found: Figures, name: str
) -> dict[str, float]:
    """Texts a second of each way; the vectors of all are those of float32 but for rounding."""
    ways = {"fp32": EncodeOptions(precision="fp32"), "auto": EncodeOptions()}
    speeds, exact = dict[str, float](), None
    for way, options in ways.items():
        some = passages[: len(passages) // 6] if way == "fp32" and setting.gpu else passages
        vectors = model.encode(some[:2048], "document", options)[: len(passages) // 6]
        vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        exact = vectors if exact is None else exact
        least = float((vectors * exact[: len(vectors)]).sum(axis=1).min())
        if least < _ENOUGH[way.split()[0]]:
            raise Failed(f"{name}, {way}: least cosine to float32 {least:.6f}", found)
        found[f"{name}, {way}, least cosine"] = round(least, 6)
        speeds[way] = add(way, seconds(partial(model.encode, some, "document", options), setting), len(some))
    return speeds


def _peers(setting: Setting, name: str, passages: list[str], add: Callable[..., float]) -> None:
    from sentence_transformers import SentenceTransformer

    half, flash = {"dtype": torch.bfloat16}, {"attn_implementation": "flash_attention_2"}
    for way, given in (("default", {}), ("bf16", half), ("bf16 FlashAttention-2", half | flash)):
        try:
            peer = SentenceTransformer(str(sized_model(setting, name)), device=setting.device, model_kwargs=given)
        except ImportError:
            continue  # flash-attn is not there
        peer.max_seq_length, some = 128, passages[: len(passages) // (2 if given else 6)]
        encode_all = partial(peer.encode, batch_size=256, convert_to_tensor=True, show_progress_bar=False)
        encode_all(some[:1024])
        add(f"sentence-transformers {way}", seconds(partial(encode_all, some), setting), len(some))


def pairs(setting: Setting) -> Figures:
    """Training pairs a second: each precision, the gradient cache, sentence-transformers' trainer in bfloat16."""
    from accelerate.state import AcceleratorState

    peer, found, wrong = import_module("train_speed"), Figures(), list[str]()
    texts = source_texts(setting.size(8192, 64), seed=3)
    after = [*texts[1:], texts[0]]
    triples = [(" ".join(text.split()[:8]), text, other) for text, other in zip(texts, after, strict=True)]
    data = peer.training_data(triples, setting.folder / "pairs")

    def rate(ends: list[float], batch: int) -> float:
        middle = len(ends) // 2
        return batch * (len(ends) - 1 - middle) / (ends[-1] - ends[middle])

    def ours(name: str, batch: int, steps: int, **given: object) -> float:
        clock = peer.Clock()
        AcceleratorState._reset_state(reset_partial_state=True)
        options = TrainOptions(warmup_ratio=0.0, checkpoint_every=None, batch_size=batch, max_steps=steps, **given)
        folder = setting.folder / f"trained-{name}-{batch}-{given['precision']}"
        train(_encoder(setting, name), data, InfoNCE(temperature=0.05), options, folder, progress=clock)
        return rate(clock.ends, batch)

    plain, large = setting.size(128, 4), setting.size(4096, 16)
    for name in ("base", "minilm"):
        speeds = {
            precision: ours(name, plain, setting.size(10 if precision == "fp32" else 24, 4), precision=precision)
            for precision in ("fp32", "bf16", "auto")
        }
        told(found, f"{name}, batch {plain}", {f"{way}, pairs/s": round(speed) for way, speed in speeds.items()})
        cached = ours(name, large, setting.size(5, 3), chunk=plain, precision="bf16")
        told(found, f"{name}, bf16, batch {large} in chunks of {plain}", {"pairs/s": round(cached)})
        AcceleratorState._reset_state(reset_partial_state=True)
        steps = setting.size(24, 4)
        asked = Namespace(model=str(sized_model(setting, name)), length=128, batch=plain, steps=steps)
        theirs = rate(peer.theirs(triples[: plain * steps], asked, setting.gpu), plain)
        told(found, f"{name}, SentenceTransformerTrainer", {"pairs/s": round(theirs)})
        if speeds["auto"] < _SLOWER * max(speeds.values()) and setting.gpu:
            wrong.append(f"{name}: auto has {speeds['auto']:.0f} pairs/s, the best {max(speeds.values()):.0f}")
    if wrong:
        raise Failed("; ".join(wrong), found)
    return found


def cloud(setting: Setting, rows: int, dimension: int = 768, seed: int = 0) -> torch.Tensor:
    """Vectors of norm 1 around a thousand topics, on the device: float32 [rows, dimension]."""
    device = torch.device(setting.device)
    draws, topics = (torch.Generator(device=device).manual_seed(number) for number in (seed, 1))
    centres = torch.randn(1000, dimension, generator=topics, device=device)
    made = torch.empty(rows, dimension, device=device)
    for start in range(0, rows, 1 << 18):
        part = made[start : start + (1 << 18)]
        near = torch.randint(0, 1000, (len(part),), generator=draws, device=device)
        noise = torch.randn(part.shape, generator=draws, device=device)
        part.copy_(torch.nn.functional.normalize(centres[near] + noise))
    return made


def search(setting: Setting) -> Figures:
    """Queries a second for the best 200 of a million: by the installed way, in float32, by plain products and peers.

    In float64 a document that stands in a list has at least the score of one that is left out, but for the rounding of
    float32.
    """
    from sentence_transformers.util import semantic_search

    rows, asked, depth = setting.size(1_000_000, 20_000), setting.size(10_240, 64), setting.size(200, 20)
    there, wanted, found = cloud(setting, rows), cloud(setting, asked, seed=5), Figures()
    here, queries = there.cpu().numpy(), wanted.cpu().numpy()

    def add(way: str, work: Callable[[], object], count: int, rounds: int = 3) -> None:
        taken = median_seconds(work, setting, rounds)
        told(found, way, {"queries/s": round(count / taken), **share(setting, 2.0 * count * rows * 768, taken)})

    lists = {}
    options, installed = ExactOptions(device=setting.device), exact.faster
    for engine, way in (("auto", installed), ("float32", lambda name: None)):
        exact.faster = way  # type: ignore[attr-defined]
        lists[engine] = search_exact(there, queries, depth, options).rows
        add(f"{engine}, resident", lambda: search_exact(there, queries, depth, options), asked)
        add(f"{engine}, from memory", lambda: search_exact(here, queries, depth, options), asked, 1)
        few = queries[:256]
        add(f"{engine}, 256 queries", lambda q=few: search_exact(there, q, depth, options), len(few))
    exact.faster = installed  # type: ignore[attr-defined]
    found["same ids at the same place"] = round(float((lists["auto"] == lists["float32"]).mean()), 6)
    for engine, ids in lists.items():
        found[f"{engine}, most that a list misses, float64"] = _missed(there, wanted[:256], ids[:256])
    half, small = there.bfloat16(), wanted.bfloat16()

    def plain(lines: torch.Tensor, columns: torch.Tensor) -> None:
        for start in range(0, len(lines), 2048):
            (lines[start : start + 2048] @ columns.T).topk(depth, dim=1)

    add("plain bf16 products and topk, not exact", partial(plain, small, half), asked, 1)
    add("plain float32 products and topk", partial(plain, wanted[: asked // 4], there), asked // 4, 1)
    some = wanted[: min(512, asked)]
    theirs = partial(semantic_search, some, there, query_chunk_size=100, corpus_chunk_size=500_000, top_k=depth)
    add("semantic_search", theirs, len(some), 1)
    return found


def _missed(there: torch.Tensor, asked: torch.Tensor, ids: np.ndarray) -> float:
    """By how much the best score outside of a list is above the least one in it, in float64; 0 where it is not."""
    most = 0.0
    for start in range(0, len(asked), 32):
        scores = torch.cat([asked[start : start + 32].double() @ part.double().T for part in there.split(1 << 17)], 1)
        rows = torch.from_numpy(ids[start : start + 32].astype(np.int64)).to(scores.device)
        least = scores.gather(1, rows).min(dim=1).values
        scores.scatter_(1, rows, -torch.inf)
        most = max(most, float((scores.max(dim=1).values - least).max()))
    return most


def adore_search(setting: Setting) -> Figures:
    """Milliseconds of a step's search: 32 queries in as many vectors as MS MARCO has passages, resident."""
    there = cloud(setting, setting.size(8_841_823, 20_000))
    queries, found = cloud(setting, 32, seed=9).cpu().numpy(), Figures()
    found["one read of all, ms"] = round(1e3 * median_seconds(lambda: there.sum(), setting), 2)
    for block in (None, 1 << 19, 1 << 21):
        options = ExactOptions(device=setting.device, corpus_block=block)
        taken = median_seconds(lambda options=options: search_exact(there, queries, 200, options), setting)
        found[f"block {block or 'by default'}, ms"] = round(1e3 * taken, 2)
    return found


def maxsim(setting: Setting) -> Figures:
    """A block of late interaction's scores: 256 queries of 32 tokens and documents of 80, resident."""
    from hardneg_multi_vector.maxsim import block_scores

    length, asked = 80, setting.size(256, 4)
    count = setting.size(1 << 15, 800) // length
    documents, queries = cloud(setting, count * length, 128), cloud(setting, asked * 32, 128, seed=3).T.contiguous()
    lengths = [torch.full((n,), tokens, device=setting.device) for n, tokens in ((count, length), (asked, 32))]
    with torch.inference_mode(), float32_products(torch.device(setting.device)):
        taken = median_seconds(lambda: block_scores(documents, lengths[0], queries, lengths[1]), setting, 9)
    finish(setting)
    work = 2.0 * count * length * asked * 32 * 128
    return {"ms a block": round(1e3 * taken, 3), **share(setting, work, taken)}
