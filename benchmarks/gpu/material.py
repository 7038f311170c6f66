"""Made-up texts, a random BERT and something to train on: nothing is fetched, nothing more is installed."""

import os
import re
import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from gpu.setting import Setting
from numpy.typing import NDArray

from hardneg.encoders.encoder import Encoder
from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.spec import ModelSpec
from hardneg.formats.corpus import Corpus, write_corpus
from hardneg.formats.negatives import read_negatives, write_negatives
from hardneg.records import Document, Negatives
from hardneg.runtime import Silent
from hardneg.training.examples import TrainingData

LENGTH = 128
_WORDS = 5_000
INSURANCE = (17, 62, 69, 75, 83, 92, 104, 121, 147, 206, 510)
"""Tokens of InsuranceQA's answers by tenths, by all-MiniLM-L6-v2's tokenizer, special ones left out."""
_SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def texts(count: int, words: int, seed: int = 0) -> list[str]:
    """Texts of about so many words, few of them common and many rare; equal seeds give equal texts."""
    draws = np.random.default_rng(seed)
    return _texts(draws, np.maximum(3, draws.lognormal(np.log(words), 0.4, count)).astype(int))


def insurance(count: int, seed: int = 0) -> list[str]:
    """Texts that have as many words as InsuranceQA's answers have tokens, a word being a token here."""
    draws = np.random.default_rng(seed)
    tenths = np.linspace(0, 1, len(INSURANCE))
    return _texts(draws, np.interp(draws.random(count), tenths, INSURANCE).astype(int))


def _texts(draws: np.random.Generator, lengths: NDArray[np.int64]) -> list[str]:
    drawn = (_WORDS * draws.random(int(lengths.sum())) ** 3).astype(int)
    return [" ".join(f"w{word}" for word in part) for part in np.split(drawn, np.cumsum(lengths)[:-1])]


def around_topics(draws: np.random.Generator, topics: int, dimension: int) -> Callable[[int], NDArray[np.float32]]:
    """Draws so many vectors of norm 1 around topics, as those of texts lie: float32 [n, dimension]."""
    centres = draws.standard_normal((topics, dimension), np.float32)

    def some(rows: int) -> NDArray[np.float32]:
        made = centres[draws.integers(0, topics, rows)] + draws.standard_normal((rows, dimension), np.float32)
        scaled: NDArray[np.float32] = made / np.linalg.norm(made, axis=1, keepdims=True)
        return scaled

    return some


def model(setting: Setting) -> Path:
    """A BERT of random weights without dropout, of the base size, with mean pooling; two layers where it is small."""
    from sentence_transformers import SentenceTransformer

    folder, shape = setting.folder / "model", (setting.size(768, 64), setting.size(12, 2))
    if not (folder / "modules.json").exists():
        bare = bert(setting.folder / "bert", *shape, dropout=0.0)
        SentenceTransformer(str(bare), device="cpu").save(str(folder))
    return folder


def bert(folder: Path, hidden: int, layers: int, dropout: float = 0.1, terms: bool = False) -> Path:
    """A bare BERT of random weights; with `dropout`, and a head of masked `terms` over a vocabulary of usual size."""
    from transformers import BertConfig, BertForMaskedLM, BertModel

    if not (folder / "config.json").exists():
        config = BertConfig(
            vocab_size=30_522 if terms else len(_SPECIAL) + _WORDS,
            hidden_size=hidden,
            num_hidden_layers=layers,
            num_attention_heads=max(2, hidden // 64),
            intermediate_size=4 * hidden,
            hidden_dropout_prob=dropout,
            attention_probs_dropout_prob=dropout,
        )
        torch.manual_seed(0)
        made = BertForMaskedLM(config) if terms else BertModel(config)
        torch.nn.init.normal_(made.get_input_embeddings().weight, std=0.5)
        _write_tokenizer(folder)
        made.save_pretrained(folder)
    return folder


def _write_tokenizer(folder: Path) -> None:
    """A token a word."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    names = [*_SPECIAL, *(f"w{word}" for word in range(_WORDS))]
    vocabulary = {name: row for row, name in enumerate(names)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    marks = [(name, vocabulary[name]) for name in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=marks
    )
    named = {f"{name.strip('[]').lower()}_token": name for name in _SPECIAL}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=512, **named).save_pretrained(folder)


SHAPES = {"minilm": (384, 6), "base": (768, 12)}
"""Width and layers of usual encoders; their vocabulary is the usual one."""


def sized_model(setting: Setting, name: str) -> Path:
    """A BERT of random weights of a usual size, with dropout.

    Its tokenizer is that of the folder in the variable TOKENIZER, where there is one, else a token a word.
    """
    from sentence_transformers import SentenceTransformer

    folder, given = setting.folder / name, os.environ.get("TOKENIZER")
    if not folder.exists():
        width, layers = (64, 2) if setting.small else SHAPES[name]
        bare = bert(setting.folder / f"{name}-bert", width, layers, terms=True)
        for path in Path(given).iterdir() if given else ():
            if path.name != "config.json":
                shutil.copy(path, bare)
        SentenceTransformer(str(bare), device="cpu").save(str(folder))
    return folder


def source_texts(count: int, words: int = 85, seed: int = 0) -> list[str]:
    """Words of numpy's sources in new orders: real words for a tokenizer, in passages of usual lengths."""
    paths = sorted(Path(np.__file__).parent.rglob("*.py"))[:120]
    known = np.array(re.findall("[A-Za-z]{2,12}", " ".join(path.read_text(errors="replace") for path in paths)))
    draws = np.random.default_rng(seed)
    lengths = np.clip(draws.lognormal(np.log(words), 0.4, count).astype(int), 8, 200)
    drawn = known[draws.integers(0, len(known), int(lengths.sum()))]
    return [" ".join(part) for part in np.split(drawn, np.cumsum(lengths)[:-1])]


def encoder(setting: Setting, device: str | None = None, length: int = LENGTH) -> Encoder:
    """The model on a device; by default that of the setting."""
    spec = ModelSpec(str(model(setting)), query_length=16, document_length=length)
    return load_learner(spec, device or setting.device)


def training_data(setting: Setting, queries: int) -> TrainingData:
    """A positive and six negatives for each query, whose words are the positive's first."""
    folder, passages = setting.folder / f"data-{queries}", texts(7 * queries, 90, seed=1)
    query_ids = [f"q{row}" for row in range(queries)]
    if not (folder / "negatives.arrow").exists():
        write_corpus((Document(f"d{row}", text) for row, text in enumerate(passages)), folder / "corpus", Silent())
        hard = [[f"d{queries + 6 * row + place}" for place in range(6)] for row in range(queries)]
        rows = [Negatives(f"q{row}", [f"d{row}"], hard[row], np.zeros(6, np.float32)) for row in range(queries)]
        write_negatives(folder / "negatives.arrow", rows)
    asked = [" ".join(text.split()[:6]) for text in passages[:queries]]
    positives = {f"q{row}": [f"d{row}"] for row in range(queries)}
    negatives = read_negatives(folder / "negatives.arrow")
    return TrainingData(Corpus.open(folder / "corpus"), query_ids, asked, positives, negatives)


def seconds(work: Callable[[], object], setting: Setting) -> float:
    """How long it takes, the device's own work included."""
    finish(setting)
    begun = time.perf_counter()
    work()
    finish(setting)
    return time.perf_counter() - begun


def median_seconds(work: Callable[[], object], setting: Setting, rounds: int = 3) -> float:
    """The median of some rounds, after one that does not count."""
    work()
    return statistics.median(seconds(work, setting) for _ in range(rounds))


def finish(setting: Setting) -> None:
    """Waits for the device."""
    if setting.gpu:
        torch.cuda.synchronize()


def peak(work: Callable[[], object], setting: Setting) -> int:
    """The most bytes of the GPU's memory that it adds; 0 on a CPU, where it runs all the same."""
    if not setting.gpu:
        work()
        return 0
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    work()
    finish(setting)
    return torch.cuda.max_memory_allocated() - before
