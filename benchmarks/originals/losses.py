"""Losses: values and gradients on random shapes, in float64 where the program lets it."""

import math
from collections import defaultdict
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from hardneg_sparse.flops import flops
from originals.comparing import Differences, Item, both
from originals.source import lines, take
from torch import Tensor, nn

from hardneg.losses.infonce import InfoNCE, Nll
from hardneg.losses.pairwise import LambdaLoss, MarginMSE, Star, Triplet
from hardneg.records import ScoreBatch
from hardneg.training.batches import BatchColumns, masked
from hardneg.training.examples import QueryRows
from hardneg.training.methods.adore import LabelledLists, label

SHAPES = [(2, 4), (3, 8), (5, 16), (8, 12), (16, 32)]
"""Queries and dimensions."""


def _vectors(*sizes: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*sizes, dtype=dtype)


def columns_of(queries: int, negatives: int, known: list[tuple[int, int]] | None = None) -> BatchColumns:
    """Those of a batch whose documents all differ; known: rows, and columns that hold another positive of theirs."""
    width = 1 + negatives
    pairs = sorted([*((row, row * width) for row in range(queries)), *(known or [])])
    owner, column = (np.array(side) for side in zip(*pairs, strict=True))
    contents = np.arange(queries * width, dtype=np.uint64)
    return BatchColumns(queries, contents, contents[column], owner)


def _scored(queries: Tensor, positives: Tensor, negatives: Tensor, columns: BatchColumns) -> ScoreBatch:
    """queries, positives: [B, d]; negatives: [B, n, d]."""
    documents = torch.cat([positives[:, None], negatives], dim=1).flatten(0, 1)
    return masked(queries @ documents.T, columns)


def _star(folder: Path) -> Iterator[Differences]:
    known = {"torch": torch, "F": F, "autocast": lambda enabled: nullcontext()}
    (program,) = take(folder / "model.py", ["inbatch_train"], known)
    for queries, size in SHAPES:
        for count in (1, 2):
            # Each query but the last knows the next one's positive and first negative too.
            width, rows = 1 + count, range(queries - 1)
            also = [(row, (row + 1) * width + place) for row in rows for place in (0, 1)]
            others, hard = 1 - torch.eye(queries).double(), torch.ones(queries, queries * count).double()
            for row in rows:
                others[row, row + 1] = hard[row, (row + 1) * count] = 0
            columns = columns_of(queries, count, also)
            given = [_vectors(queries, size), _vectors(queries, size), _vectors(queries, count, size)]

            def theirs(asked: Tensor, relevant: Tensor, wrong: Tensor, others=others, hard=hard) -> Any:
                passes: Any = (lambda vectors, mask: vectors,) * 2
                sides = (asked, asked, relevant, relevant, wrong, wrong)
                return program(*passes, *sides, rel_pair_mask=others, hard_pair_mask=hard)[0]

            yield both(theirs, lambda *some, columns=columns: Star()(_scored(*some, columns)), given)


def _listed_loss(listed: LabelledLists, queries: Tensor, documents: Tensor, cut: int) -> Tensor:
    rows = torch.from_numpy(np.maximum(listed.rows, 0))
    positive, valid = torch.from_numpy(listed.positive), torch.from_numpy(listed.valid)
    scores = (queries[:, None] * documents[rows]).sum(2)
    batch = ScoreBatch(scores, positive, valid & ~positive, valid, ranks=torch.from_numpy(listed.ranks))
    return LambdaLoss(cut=cut)(batch)


def _lists(queries: int, depth: int, documents: int) -> tuple[np.ndarray, np.ndarray]:
    """Lists of documents, and a positive of each query: of every other one in its list, of the others beyond."""
    lists = np.stack([np.random.permutation(documents - queries)[:depth] for _ in range(queries)])
    inside = [lists[row, np.random.randint(depth)] if row % 2 else documents - queries + row for row in range(queries)]
    return lists, np.array(inside)


def _asked(positives: np.ndarray) -> QueryRows:
    places = np.arange(len(positives))
    return QueryRows([str(place) for place in places], [""] * len(places), places, positives, places)


def _adore(folder: Path) -> Iterator[Differences]:
    code = lines(folder / "adore" / "train.py", "loss = 0", "loss /=")
    for cut in (10, 200):
        for depth in (5, 20, 100, 200):
            corpus = _vectors(260, 16, dtype=torch.float32)
            lists, positives = _lists(8, depth, len(corpus))

            def theirs(vectors: Tensor, cut=cut, lists=lists, positives=positives, corpus=corpus) -> Tensor:
                sizes = {"train_batch_size": len(vectors), "gradient_accumulation_steps": 1, "metric_cut": cut}
                space = {
                    "args": SimpleNamespace(**sizes, model_device="cpu"), "np": np, "torch": torch,
                    "I_nearest_neighbor": lists, "all_rel_pids": [[row] for row in positives], "zip": zip,
                    "query_embeddings": vectors, "passage_embeddings": corpus.numpy(), "tr_mrr": 0.0, "tr_recall": 0.0,
                }  # fmt: skip
                exec(code, space)
                return space["loss"]

            listed = label(lists, _asked(positives), np.arange(len(corpus), dtype=np.uint64), "none_retrieved")
            ours = lambda vectors, listed=listed, corpus=corpus, cut=cut: _listed_loss(listed, vectors, corpus, cut)  # noqa: E731
            yield both(theirs, ours, [_vectors(8, 16, dtype=torch.float32) / 4])


def _jpq(folder: Path) -> Iterator[Differences]:
    names = ["get_doc_embeds", "compute_loss"]
    _, program = take(folder / "jpq" / "run_train.py", names, {"torch": torch})
    for cut in (10, 200):
        for depth in (5, 20, 100, 200):
            codes = torch.randint(0, 16, (260, 4))
            lists, positives = _lists(8, depth, len(codes))
            listed = label(lists, _asked(positives), np.arange(len(codes), dtype=np.uint64), "always")
            relevant, found = [[int(row)] for row in positives], torch.from_numpy(lists)

            def theirs(vectors: Tensor, centroids: Tensor, codes=codes, cut=cut, found=found, relevant=relevant) -> Any:
                return program(vectors, codes, centroids, found, relevant, cut)[0]

            def ours(vectors: Tensor, centroids: Tensor, codes=codes, cut=cut, listed=listed) -> Tensor:
                return _listed_loss(listed, vectors, centroids[torch.arange(4), codes].flatten(1), cut)

            given = [_vectors(8, 16, dtype=torch.float32) / 4, _vectors(4, 16, 4, dtype=torch.float32)]
            yield both(theirs, ours, given)


def _ance(folder: Path) -> Iterator[Differences]:
    (forward,) = take(folder / "model" / "models.py", ["NLL.forward"], {"torch": torch, "F": F})
    model = SimpleNamespace(query_emb=lambda vectors, mask: vectors, body_emb=lambda vectors, mask: vectors)
    for queries, size in SHAPES:
        columns = columns_of(queries, 1)

        def theirs(asked: Tensor, relevant: Tensor, wrong: Tensor) -> Tensor:
            return forward(model, asked, None, relevant, None, wrong[:, 0], None)[0]

        given = [_vectors(queries, size), _vectors(queries, size), _vectors(queries, 1, size)]
        yield both(theirs, lambda *some, columns=columns: Nll()(_scored(*some, columns)), given)


def _cort(folder: Path) -> Iterator[Differences]:
    (program,) = take(folder / "cort" / "model.py", ["CortModel._loss_fn"], {"torch": torch, "pi": math.pi})
    for queries, size in SHAPES:
        for margin in (0.0, 0.1):
            columns, loss = columns_of(queries, 1), Triplet(margin)
            model = SimpleNamespace(device="cpu", hparams=SimpleNamespace(margin=margin))
            theirs = lambda asked, relevant, wrong, model=model: program(model, asked, relevant, wrong[:, 0])  # noqa: E731

            def ours(*some: Tensor, loss=loss, columns=columns) -> Tensor:
                return loss(_scored(*(F.normalize(vectors, dim=-1) for vectors in some), columns))

            yield both(theirs, ours, [_vectors(queries, size), _vectors(queries, size), _vectors(queries, 1, size)])


def _splade(name: str, loss: InfoNCE, in_batch: bool) -> Any:
    def check(folder: Path) -> Iterator[Differences]:
        (kind,) = take(folder / "splade" / "losses" / "pairwise.py", [name], {"torch": torch})
        program = kind()
        for queries, size in SHAPES:
            columns = columns_of(queries, 1)

            def theirs(asked: Tensor, relevant: Tensor, wrong: Tensor) -> Tensor:
                own = (asked * relevant).sum(1, keepdim=True)
                scores = asked @ relevant.T if in_batch else own
                return program({"pos_score": scores, "neg_score": (asked * wrong[:, 0]).sum(1, keepdim=True)})

            given = [_vectors(queries, size), _vectors(queries, size), _vectors(queries, 1, size)]
            yield both(theirs, lambda *some, columns=columns: loss(_scored(*some, columns)), given)

    return check


def _flops(folder: Path) -> Iterator[Differences]:
    (kind,) = take(folder / "splade" / "losses" / "regularization.py", ["FLOPS"], {"torch": torch})
    for texts, size in SHAPES:
        ours = lambda logits, texts=texts: flops(logits.relu(), torch.ones(texts).double())  # noqa: E731
        yield both(lambda logits: kind()(logits.relu()), ours, [_vectors(texts, size)])


def _tas_b(folder: Path) -> Iterator[Differences]:
    (kind,) = take(folder / "matchmaker" / "losses" / "msmargin.py", ["MSMarginLoss"], {"torch": torch, "nn": nn})
    code = lines(folder / "matchmaker" / "train.py", "ib_select = torch.ones", "loss = loss * config")
    for queries, size in SHAPES:
        teacher, guide = _vectors(queries, 2), _vectors(queries, queries, 2)
        sides = {"dyn_teacher_scores_pos": guide[..., 0], "dyn_teacher_scores_neg": guide[..., 1]}

        def theirs(asked: Tensor, relevant: Tensor, wrong: Tensor, teacher=teacher, sides=sides) -> Any:
            own, other = (asked * relevant).sum(1), (asked * wrong[:, 0]).sum(1)
            space = {
                "torch": torch, "batch": sides, "config": {"in_batch_main_pair_lambda": 1, "in_batch_neg_lambda": 0.75},
                "loss": kind()(own, other, teacher[:, 0], teacher[:, 1]), "inbatch_loss_fn": kind(),
                "query_vecs_pos": asked, "doc_vecs_pos": relevant, "doc_vecs_neg": wrong[:, 0],
                "ranking_score_pos": own, "use_dynamic_teacher": True, "use_inbatch_list_loss": False,
                "tensorboard_stats": defaultdict(float),
            }  # fmt: skip
            exec(code, space)
            return space["loss"]

        columns = columns_of(queries, 1)
        taught = torch.full((queries, 2 * queries), torch.nan).double()
        taught[torch.arange(queries)[:, None], 2 * torch.arange(queries)[:, None] + torch.arange(2)] = teacher

        def ours(*some: Tensor, columns=columns, taught=taught, guide=guide) -> Tensor:
            batch = replace(_scored(*some, columns), teacher=taught, guide=guide.flatten(1))
            return MarginMSE(in_batch=0.75, in_batch_own=False)(batch)

        yield both(theirs, ours, [_vectors(queries, size), _vectors(queries, size), _vectors(queries, 1, size)])


def _tele(folder: Path) -> Iterator[Differences]:
    file = folder / "ancetele" / "losses" / "contrastive_loss.py"
    (kind,) = take(file, ["SimpleContrastiveLoss"], {"torch": torch, "F": F, "Tensor": Tensor})
    for queries, size in SHAPES:
        for count in (1, 3):
            columns, program = columns_of(queries, count), kind(1 + count)

            def theirs(asked: Tensor, relevant: Tensor, wrong: Tensor, program=program) -> Any:
                return program(asked, torch.cat([relevant[:, None], wrong], dim=1).flatten(0, 1))

            given = [_vectors(queries, size), _vectors(queries, size), _vectors(queries, count, size)]
            yield both(theirs, lambda *some, columns=columns: InfoNCE()(_scored(*some, columns)), given)


ITEMS = {
    "drhard": [
        Item("STAR's loss, with masks", "model.py: inbatch_train", "`star`", _star),
        Item("ADORE's loss, float32", "adore/train.py: train", "`lambda`", _adore, 1e-6),
    ],
    "jpq": [Item("JPQ's loss, float32", "jpq/run_train.py: compute_loss", "`lambda`", _jpq, 1e-6)],
    "ance": [Item("ANCE's loss", "model/models.py: NLL.forward", "`nll`", _ance)],
    "cort": [Item("CoRT's loss", "cort/model.py: CortModel._loss_fn", "`triplet`", _cort)],
    "splade": [
        Item(
            "SPLADE's loss", "splade/losses/pairwise.py: InBatchPairwiseNLL", "`infonce`, `own_and_positives`",
            _splade("InBatchPairwiseNLL", InfoNCE(negatives="own_and_positives"), in_batch=True),
        ),
        Item(
            "SPLADE's loss on each query's own pairs", "splade/losses/pairwise.py: PairwiseNLL", "`infonce`, `own`",
            _splade("PairwiseNLL", InfoNCE(negatives="own"), in_batch=False),
        ),
        Item("SPLADE's penalty for one side", "splade/losses/regularization.py: FLOPS", "`flops`", _flops),
    ],
    "tas-b": [Item("TAS-B's two teachers", "matchmaker/train.py, losses/msmargin.py", "`margin-mse`", _tas_b)],
    "ance-tele": [Item("ANCE-Tele's loss", "losses/contrastive_loss.py: SimpleContrastiveLoss", "`infonce`", _tele)],
}  # fmt: skip
