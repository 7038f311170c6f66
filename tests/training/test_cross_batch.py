"""Cross-batch negatives of two and three processes: the scores, masks, gradients and weights of one plain batch."""

import json
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from guided_toy import toy_guide
from precise import PreciseEncoder, PreciseTokens
from processes import codes, launch
from toy import BagEncoder, Squares, options, toy_data

from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.spec import AdapterSpec, ModelSpec
from hardneg.formats.segments import Segments
from hardneg.losses import pairwise
from hardneg.losses.infonce import InfoNCE
from hardneg.records import ScoreBatch
from hardneg.registry import needs_of
from hardneg.runtime import Silent, World, distributed, leave, world
from hardneg.training import examples, loop
from hardneg.training.methods import dual_encoder
from hardneg.training.options import GUIDES, GuidedMask, TrainOptions

CASES: dict[str, dict[str, Any]] = {
    "even": {"batch_size": 6},
    "odd": {"batch_size": 5, "chunk": 1},
    "fewer": {"batch_size": 2, "chunk": 1},
    "accumulated": {"batch_size": 7, "chunk": 2, "accumulate": 2},
    "segments": {"batch_size": 5, "chunk": 2},
    "unmasked": {"batch_size": 11, "chunk": 2, "false_negative_mask": False},
    "tokens": {"batch_size": 6},
    "tokens-in-chunks": {"batch_size": 5, "chunk": 1},
    "dims": {"batch_size": 5, "chunk": 2},
    "dims-of-segments": {"batch_size": 7},
    "precisions": {"batch_size": 6, "chunk": 2},
    "penalty": {"batch_size": 5, "chunk": 1},
    "guided": {"batch_size": 5},
    "guided-in-chunks": {"batch_size": 7, "chunk": 1},
    "guided-tokens": {"batch_size": 5, "chunk": 2},
    "guided-dims": {"batch_size": 6},
    "taught-by-a-guide": {"batch_size": 5, "chunk": 2},
    "frozen": {"batch_size": 5},
}
MASKS = dual_encoder.LossTerms(guided_mask=GuidedMask(0.1), self_mask=0.3)
TERMS = {
    "guided": MASKS,
    "guided-in-chunks": MASKS,
    "guided-tokens": MASKS,
    "guided-dims": replace(MASKS, dims={6: 1.0, 2: 0.5}),
    "dims": dual_encoder.LossTerms({6: 1.0, 2: 0.5}),
    "precisions": dual_encoder.LossTerms({6: 1.0, 2: 0.5}, precisions=("float32", "int8", "binary")),
    "dims-of-segments": dual_encoder.LossTerms({6: 1.0, 2: 0.5}),
    "penalty": dual_encoder.LossTerms({}, Squares(0.5, 0.25)),
}
EVERY = InfoNCE(0.5, directions=("query-document", "query-query", "document-query", "document-document"), hardness=0.5)
LOSSES: dict[str, Any] = {
    "accumulated": pairwise.Star(),
    **dict.fromkeys(("guided", "guided-in-chunks", "guided-tokens", "guided-dims"), EVERY),
    "taught-by-a-guide": pairwise.MarginMSE(),
}
SHOWN = ("scores", "positive", "own", "valid", "teacher", "query_query", "document_document", *GUIDES)
BROKEN = ("without-gradients", "own-gradients-alone")
TRANSFORMERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "star": (pairwise.Star(), {"batch_size": 5, "accumulate": 2}),
    "infonce-fewer": (InfoNCE(), {"batch_size": 2}),
    "ranknet": (pairwise.RankNet(), {"batch_size": 6}),
    "star-segments": (pairwise.Star(), {"batch_size": 5}),
    "star-chunks": (pairwise.Star(), {"batch_size": 5, "accumulate": 2, "chunk": 1}),
    "adapter": (pairwise.Star(), {"batch_size": 5, "accumulate": 2}),
    "adapter-fewer": (pairwise.Star(), {"batch_size": 2, "chunk": 1}),
}


@dataclass(frozen=True)
class Seen:
    """A loss that keeps what it was shown."""

    version: ClassVar[int] = 1

    loss: Any
    batches: list[Any] = field(default_factory=list, compare=False)

    @property
    def needs(self) -> tuple[str, ...]:
        """Those of the loss that is watched."""
        return needs_of(self.loss)

    def __call__(self, batch: ScoreBatch) -> torch.Tensor:
        self.batches.append(batch)
        value: torch.Tensor = self.loss(batch)
        return value


class Watched(torch.optim.SGD):
    """Plain descent, for Adam makes steps of full size from rounding errors; keeps the gradients it was given."""

    def __init__(self, model: torch.nn.Module, seen: list[dict[str, torch.Tensor]]) -> None:
        named = list(model.named_parameters())
        super().__init__([weight for _, weight in named], lr=1.0, momentum=0.5)
        self._named, self._seen = named, seen

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        self._seen.append({name: weight.grad.clone() for name, weight in self._named if weight.grad is not None})
        super().step(closure)


@dataclass(frozen=True)
class Fragile:
    """STAR's loss; its fourth call may be forbidden."""

    version: ClassVar[int] = 1
    calls: ClassVar[list[int]] = []
    forbidden: ClassVar[bool] = False

    def __call__(self, batch: ScoreBatch) -> torch.Tensor:
        self.calls.append(1)
        if self.forbidden and len(self.calls) == 4:
            raise KeyboardInterrupt
        return pairwise.Star()(batch)


def resume(toy: Path, out: Path, number: int) -> None:
    """Several processes stop at the fourth step and go on from the checkpoint after the second; one does not stop."""
    here = world()
    measured: list[int] = []
    loop.steps.make_optimizer = lambda towers, options: Watched(towers, [])

    def validate() -> dict[str, float]:
        measured.append(1)
        return {"mrr@10": [0.1, 0.2, 0.3][len(measured) - 1]}

    chosen = options(max_steps=6, accumulate=1, evaluate_every=2)
    for forbidden in (True, False) if number > 1 else (False,):
        Fragile.forbidden = forbidden
        encoder: Any = BagEncoder()
        encoder.module.dropout.p = 0.0
        try:
            data, folder = toy_data(toy), out / f"resumed-{number}"
            watched = {"progress": Silent(), "validate": validate}
            result = dual_encoder.train(encoder, data, Fragile(), chosen, folder, **watched)
        except KeyboardInterrupt:
            assert forbidden
    assert (result.steps, result.best_step, result.best) == (6, 6, 0.3)
    assert len(measured) == (3 if here.rank == 0 else 0)
    assert len(result.history) == 9
    torch.save(encoder.module.state_dict(), out / f"resumed-{number}-{here.rank}.pt")


def broken(kind: str) -> Any:
    """A gather as it must not be: other processes' parts, or all of them, are constants."""

    def gather(part: torch.Tensor, total: int, here: World | None = None) -> torch.Tensor:
        whole, here = distributed.gather(part.detach(), total), world()
        if kind == "without-gradients":
            return whole + 0 * part.sum()
        share = here.share(total)
        return torch.cat([whole[: share.start], part[: share.stop - share.start], whole[share.stop :]])

    return gather


def learn(toy: Path, out: Path, name: str, chosen: TrainOptions) -> dict[str, torch.Tensor]:
    """Two steps: the gradients of each, the final weights, and all that the loss was shown; and so into a file."""
    seen: list[dict[str, torch.Tensor]] = []
    loop.steps.make_optimizer = lambda towers, options: Watched(towers, seen)
    encoder: Any = PreciseTokens() if "tokens" in name else PreciseEncoder()
    encoder.module.words.requires_grad_(name != "frozen")
    data = replace(toy_data(toy), segments=Segments(length=2, count=3) if "segments" in name else None)
    loss = Seen(LOSSES.get(name, InfoNCE()))
    data = replace(data, guide=toy_guide(data) if "guide" in name else None)
    dual_encoder.train(
        encoder, data, loss, chosen, out / name, progress=Silent(), terms=TERMS.get(name, dual_encoder.LossTerms())
    )
    found = {f"step {step} {name}": tensor for step, tensors in enumerate(seen) for name, tensor in tensors.items()}
    found |= {f"weight {name}": weight.detach().clone() for name, weight in encoder.module.named_parameters()}
    for place, batch in enumerate(loss.batches):
        given = {part: getattr(batch, part) for part in SHOWN}
        shown = {part: tensor.detach() for part, tensor in given.items() if tensor is not None}
        found |= {f"batch {place} {part}": tensor for part, tensor in shown.items()}
    torch.save(found, out / f"{name}-{world().rank}.pt")
    return found


def learn_transformer(toy: Path, model: Path, out: Path, name: str) -> dict[str, torch.Tensor]:
    """Three steps without dropout: the gradients of each and the final weights; and so into a file."""
    seen: list[dict[str, torch.Tensor]] = []
    loop.steps.make_optimizer = lambda towers, options: Watched(towers, seen)
    adapter = AdapterSpec(rank=4) if "adapter" in name else None
    encoder = load_learner(ModelSpec(str(model), query_length=16, document_length=24, adapter=adapter), "cpu")
    for part in encoder.module.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
    data = replace(toy_data(toy), segments=Segments(length=6, count=3) if "segments" in name else None)
    loss, more = TRANSFORMERS[name]
    chosen = settings(**{"max_steps": 3, "warmup_steps": 0, **more})
    dual_encoder.train(encoder, data, loss, chosen, out / name, progress=Silent())
    found = {f"step {step} {name}": tensor for step, tensors in enumerate(seen) for name, tensor in tensors.items()}
    found |= {f"weight {name}": weight.detach().clone() for name, weight in encoder.module.named_parameters()}
    torch.save(found, out / f"{name}-{world().rank}.pt")
    return found


def settings(**more: Any) -> TrainOptions:
    return options(**{"max_steps": 2, "accumulate": 1, "learning_rate": 0.1, "clip_norm": None, **more})


def main(toy: str, model: str, out: str, number: str) -> None:
    """All cases in one of several processes."""
    folder = Path(out) / number
    folder.mkdir(exist_ok=True)
    for name, more in CASES.items():
        learn(Path(toy), folder, name, settings(**more))
    for name in TRANSFORMERS:
        learn_transformer(Path(toy), Path(model), folder, name)
    right = dual_encoder.gather
    for name in BROKEN:
        dual_encoder.gather = broken(name)
        learn(Path(toy), folder, name, settings(batch_size=6))
    dual_encoder.gather = right
    resume(Path(toy), Path(out), int(number))
    leave()


@pytest.fixture(scope="module")
def learnt(toy_folder: Path, tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of two and of three processes."""
    out = tmp_path_factory.mktemp("cross-batch")
    given = [__file__, toy_folder, tiny_model, out]
    running = [process for number in (2, 3) for process in launch([*given, number], number)]
    assert codes(running) == [0] * 5
    return out


@pytest.fixture()
def alone(toy_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What one process comes to."""
    monkeypatch.setattr(loop.steps, "make_optimizer", loop.steps.make_optimizer)
    return lambda name, **more: learn(toy_folder, tmp_path, name, settings(**more))


def differences(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> set[str]:
    """The names of what is not the same to nine digits."""
    assert found.keys() == expected.keys()
    same = {"rtol": 1e-9, "atol": 1e-9}
    near = {name: torch.allclose(found[name].double(), tensor.double(), **same) for name, tensor in expected.items()}
    return {name for name in near if not near[name]}


def results(learnt: Path, name: str) -> list[dict[str, torch.Tensor]]:
    ranks = [(number, rank) for number in (2, 3) for rank in range(number)]
    return [torch.load(learnt / str(number) / f"{name}-{rank}.pt", weights_only=True) for number, rank in ranks]


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_all_is_that_of_one_process_and_the_plain_batch(learnt, alone, name):
    plain = alone(name, **{**CASES[name], "chunk": None})
    assert sum(name.startswith("step 1") for name in plain) == (4 if name == "frozen" else 5)
    for found in results(learnt, name):
        assert differences(found, plain) == set()


@pytest.mark.slow
@pytest.mark.parametrize("name", TRANSFORMERS)
def test_transformers_and_adapters_learn_what_one_process_does(
    learnt: Path, toy_folder: Path, tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(loop.steps, "make_optimizer", loop.steps.make_optimizer)
    plain = learn_transformer(toy_folder, tiny_model, tmp_path, name)
    assert sum(place.startswith("step 2") for place in plain) > (6 if "adapter" in name else 20)
    for found in results(learnt, name):
        torch.testing.assert_close(found, plain, rtol=1e-5, atol=1e-6)
    norms = [
        [json.loads(line)["gradient_norms"] for line in (folder / name / "history.jsonl").read_text().splitlines()]
        for folder in (tmp_path, learnt / "2", learnt / "3")
    ]
    assert norms[0][0].keys() >= {"bottom"} and len(norms[0]) == 3
    for several in norms[1:]:
        assert several == [pytest.approx(each, rel=1e-4) for each in norms[0]]


@pytest.mark.slow
def test_each_rows_label_is_its_querys_positive(learnt, toy_folder):
    """By the vectors of the texts; 5 queries in shares of 2 and 3, and of 1, 2 and 2."""
    encoder: Any = PreciseEncoder()
    data = toy_data(toy_folder)
    draw = examples.Examples(data, 2, options().seed).draw(0, 5)

    def vectors(texts: Any, side: str) -> torch.Tensor:
        return encoder.embed(encoder.features(list(texts), side), side).detach()

    positives = vectors(data.corpus.contents(draw.documents[:, 0]), "document")
    expected = (vectors(draw.texts, "query") * positives).sum(1)
    for found in results(learnt, "odd"):
        scores, positive = found["batch 0 scores"], found["batch 0 positive"]
        assert scores.shape == (5, 15)
        assert positive.nonzero().tolist() == [[row, 3 * row] for row in range(5)]
        torch.testing.assert_close(scores[positive], expected, rtol=1e-12, atol=1e-12)


@pytest.mark.slow
def test_wrong_gathers_are_caught(learnt, alone):
    """Without gradients there are none; with those of one's own part they are too small by the number of processes."""
    plain = alone("even", **CASES["even"])
    gradients = {name for name in plain if name.startswith("step 0")}
    for found in results(learnt, "without-gradients"):
        assert differences(found, plain) >= gradients
        assert all(float(found[name].abs().max()) == 0 for name in gradients)
    for found, number in zip(results(learnt, "own-gradients-alone"), [2] * 2 + [3] * 3, strict=True):
        assert differences(found, plain) >= gradients
        first = {name: found[name] * number for name in gradients}
        assert differences(first, {name: plain[name] for name in gradients}) == set()


def test_shares_lie_in_a_row_and_differ_by_one() -> None:
    for size in (1, 2, 3, 7):
        for total in (0, 1, 2, 5, 12):
            parts = [distributed.World(rank, size).share(total) for rank in range(size)]
            assert [i for part in parts for i in range(total)[part]] == list(range(total))
            lengths = [len(range(total)[part]) for part in parts]
            assert max(lengths) - min(lengths) <= 1
            assert distributed.World(0, size).shares(total) == lengths


def test_alone_nothing_is_joined() -> None:
    assert distributed.world() == distributed.World(0, 1)
    assert distributed.world().rank == 0


@pytest.mark.slow
def test_all_processes_go_on_from_the_checkpoint(learnt: Path, toy_folder: Path, alone: Any) -> None:
    resume(toy_folder, learnt, 1)
    names = ("1-0", "2-0", "2-1", "3-0", "3-1", "3-2")
    whole, *others = [torch.load(learnt / f"resumed-{name}.pt", weights_only=True) for name in names]
    for other in others:
        for name, tensor in whole.items():
            torch.testing.assert_close(other[name], tensor, rtol=1e-5, atol=1e-6)


if __name__ == "__main__":
    main(*sys.argv[1:])
