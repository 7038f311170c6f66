"""sentence-transformers' own trainer where its products are in TF32: it mines, and what is searched is exact."""

import numpy as np
import torch
from gpu.material import model
from gpu.recipes import collection
from gpu.setting import Figures, Setting, expect

from hardneg.indexes.exact import ExactOptions, search_exact


def tf32(setting: Setting) -> Figures:
    """`TrainingArguments(tf32=True)` with negatives that are mined twice; whole numbers are searched exactly after it.

    On a CPU, where the trainer refuses it, what it calls is called by hand.
    """
    from sentence_transformers import (
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
    from transformers.utils import enable_tf32

    from hardneg.trainer import RefreshedNegatives

    device = {"tf32": True} if setting.gpu else {"use_cpu": True}
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(setting.folder / "trained"),
        per_device_train_batch_size=setting.size(32, 4),
        max_steps=setting.size(20, 3),
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
        **device,
    )
    enable_tf32(True)
    network = SentenceTransformer(str(model(setting)), device=setting.device)
    dataset = f"beir:{collection(setting, setting.size(20_000, 300), 90)}"
    negatives = RefreshedNegatives(dataset, arguments, every=setting.size(10, 2), depth=20, negatives=2)
    loss = MultipleNegativesRankingLoss(network)
    trainer = SentenceTransformerTrainer(model=network, args=arguments, train_dataset=negatives.dataset, loss=loss)
    negatives.attach(trainer)
    trainer.train()
    made = sum("refresh" in record for record in trainer.state.log_history)
    expect(made == 2, f"{made} refreshes were made")
    rounded = torch.backends.cuda.matmul.fp32_precision == "tf32"
    expect(rounded, "the trainer's own products are no longer in TF32")
    draws = np.random.default_rng(0)
    vectors, queries = (draws.integers(-4000, 4001, (count, 64)).astype(np.float32) / 4096 for count in (3000, 40))
    one, other = (
        search_exact(vectors, queries, 20, ExactOptions(device=name)).scores for name in ("cpu", setting.device)
    )
    apart = float(np.abs(one - other).max())
    expect(apart < 1e-5, f"scores are {apart:.1e} from the CPU's: TF32 keeps three digits")
    torch.backends.fp32_precision = "none"
    return {"refreshes": made, "largest difference of a score": round(apart, 8)}
