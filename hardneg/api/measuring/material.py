"""What is measured with: texts that are on every machine, and models of random weights over a tokenizer of these."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from hardneg.datasets.docstrings import read_docstrings

LENGTH, QUERY_LENGTH = 128, 32
_PACKAGE = "numpy"  # which is always there
_WORDS, _LONG = 8_000, 80  # pieces of words that are known; words of a text
_SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


@cache
def texts() -> tuple[str, ...]:
    """Docstrings of a package that hardneg needs, in the order of its files, as long as passages are."""
    docstrings = (item.text for item in read_docstrings(_PACKAGE, Counter(), set()))
    return tuple(" ".join(text.split()[:_LONG]) for text in docstrings)


def many(count: int) -> list[str]:
    """So many texts, the same again and again where there are fewer; not sorted by length."""
    own = texts()
    step = next(step for step in (7919, 7907, 7901) if len(own) % step)  # primes: every text comes in turn
    return [own[row * step % len(own)] for row in islice(cycle(range(len(own))), count)]


@dataclass(frozen=True)
class Materials:
    """Models in a folder, made when they are first asked for."""

    folder: Path

    @cached_property
    def tokenizer(self) -> Any:
        """Pieces of words, learnt from the texts as BERT's were."""
        from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

        wordpiece = Tokenizer(models.WordPiece({}, unk_token="[UNK]"))
        wordpiece.normalizer = normalizers.BertNormalizer()
        wordpiece.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        wordpiece.train_from_iterator(texts(), trainers.WordPieceTrainer(vocab_size=_WORDS, special_tokens=_SPECIAL))
        marks = [(name, wordpiece.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
        wordpiece.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=marks)
        return wordpiece

    def transformer(self, hidden: int, layers: int) -> Path:
        """A BERT of that size, with heads of 64 numbers, mean pooling and normalised vectors."""
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
        from transformers import BertConfig, BertModel

        folder, bare = self.folder / f"{hidden}-{layers}", self.folder / f"{hidden}-{layers}-bare"
        config = BertConfig(
            vocab_size=self.tokenizer.get_vocab_size(),
            hidden_size=hidden,
            num_hidden_layers=layers,
            num_attention_heads=max(1, hidden // 64),
            intermediate_size=4 * hidden,
        )
        BertModel(config).save_pretrained(bare)
        from transformers import PreTrainedTokenizerFast

        named: dict[str, Any] = {f"{name.strip('[]').lower()}_token": name for name in _SPECIAL}
        fast = PreTrainedTokenizerFast(tokenizer_object=self.tokenizer, model_max_length=LENGTH, **named)
        fast.save_pretrained(bare)
        network = Transformer(str(bare), max_seq_length=LENGTH)
        modules: Sequence[Any] = [network, Pooling(hidden), Normalize()]
        SentenceTransformer(modules=modules, device="cpu").save(str(folder))
        return folder

    def table(self, dimension: int) -> Path:
        """A vector of so many numbers for each piece of a word."""
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.sentence_transformer.modules import StaticEmbedding

        folder = self.folder / f"table-{dimension}"
        modules: Sequence[Any] = [StaticEmbedding(self.tokenizer, embedding_dim=dimension)]
        SentenceTransformer(modules=modules, device="cpu").save(str(folder))
        return folder
