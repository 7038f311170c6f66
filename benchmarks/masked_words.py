"""A small network that has learned from masked words alone: a start model that no contrastive loss has ever seen.

    python benchmarks/masked_words.py tiny                                        docstrings of installed packages
    python benchmarks/masked_words.py tiny --texts medquad/corpus.jsonl              and passages of a file
    hardneg recipe run dose-start --preset full --set dataset=beir:medquad --set model.name=tiny

ModernBERT's network (Warner et al., 2024) of BERT-tiny's size: two layers of 128 numbers. Its vocabulary is made from
the texts; 15 % of the words are masked, as in BERT (Devlin et al., 2019). No query and no label is read. If it was
ended, it goes on from its last checkpoint.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

from tokenizers import BertWordPieceTokenizer
from transformers import (
    DataCollatorForLanguageModeling,
    ModernBertConfig,
    ModernBertForMaskedLM,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
    set_seed,
)
from transformers.trainer_utils import get_last_checkpoint

from hardneg.datasets.pydocs import PyDocs

LENGTH = 128


def texts(extra: Path | None) -> Iterator[str]:
    """Docstrings, and the passages of a file in BEIR's form."""
    yield from (document.text for document in PyDocs(max_passages=100_000).load().documents())
    if extra is not None:
        with extra.open(encoding="utf-8") as file:
            yield from (str(json.loads(line)["text"]) for line in file)


def tokenizer_of(lines: list[str], words: int) -> PreTrainedTokenizerFast:
    """Pieces of words that these texts have."""
    pieces = BertWordPieceTokenizer()
    pieces.train_from_iterator(lines, vocab_size=words, show_progress=False)
    names = {f"{name}_token": f"[{name.upper()}]" for name in ("unk", "cls", "sep", "pad", "mask")}
    return PreTrainedTokenizerFast(tokenizer_object=pieces._tokenizer, model_max_length=LENGTH, **names)


def rows(lines: list[str], tokenizer: PreTrainedTokenizerFast) -> list[dict[str, list[int]]]:
    """All texts one after another, cut into rows of 128 tokens."""
    ids = [
        token for each in tokenizer(lines, add_special_tokens=False, truncation=False)["input_ids"] for token in each
    ]
    own = LENGTH - 2
    cuts = [ids[at : at + own] for at in range(0, len(ids) - own, own)]
    return [{"input_ids": [tokenizer.cls_token_id, *cut, tokenizer.sep_token_id]} for cut in cuts]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("--texts", type=Path, help="a corpus.jsonl whose passages are read too")
    parser.add_argument("--steps", type=int, default=8_000)
    parser.add_argument("--words", type=int, default=8_192, help="size of the vocabulary")
    arguments = parser.parse_args()
    set_seed(42)
    work = arguments.output.with_name(f"{arguments.output.name}.work")
    work.mkdir(parents=True, exist_ok=True)
    lines = list(texts(arguments.texts))
    tokenizer = tokenizer_of(lines, arguments.words)
    data = rows(lines, tokenizer)
    print(f"{len(lines)} texts, {len(data)} rows of {LENGTH} tokens, {len(tokenizer)} words")
    special = {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("pad", "cls", "sep")}
    config = ModernBertConfig(
        vocab_size=len(tokenizer),
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=192,
        max_position_embeddings=LENGTH,
        sparse_prediction=True,
        attn_implementation="sdpa",
        **special,
    )
    model = ModernBertForMaskedLM(config)
    options = TrainingArguments(
        output_dir=str(work),
        max_steps=arguments.steps,
        per_device_train_batch_size=32,
        learning_rate=1e-3,
        warmup_steps=arguments.steps // 20,
        weight_decay=0.01,
        save_steps=1_000,
        save_total_limit=1,
        logging_steps=500,
        report_to=[],
        disable_tqdm=True,
        seed=42,
    )
    masks = DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.15)
    trainer = Trainer(model=model, args=options, train_dataset=data, data_collator=masks)
    trainer.train(resume_from_checkpoint=get_last_checkpoint(str(work)))
    model.model.save_pretrained(arguments.output)
    tokenizer.save_pretrained(arguments.output)


if __name__ == "__main__":
    main()
