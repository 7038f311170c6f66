"""Two and three processes on one batch: the gradients and weights of a single process."""

import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from processes import launch

from hardneg.encoders.open.resolved import load_learner
from hardneg.formats.segments import Segments
from hardneg.losses.infonce import InfoNCE
from hardneg.losses.pairwise import RankNet, Star
from hardneg.records import ScoreBatch
from hardneg.runtime import distributed, leave, progress
from hardneg.training import loop
from hardneg.training.methods import dual_encoder
from hardneg.training.options import TrainOptions

LOSSES = {"star": Star(), "infonce": InfoNCE(), "ranknet": RankNet(), "segments": Star(), "chunks": Star()}
LOSSES["adapter"] = Star()
SIZES = {"even": (6, 1), "odd": (5, 2), "fewer": (2, 1)}
CASES = [f"{loss}-{size}" for loss in LOSSES for size in SIZES]


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
    assert distributed.world().first


class Watched(torch.optim.SGD):
    """Plain descent, for Adam makes steps of full size from rounding errors; keeps the gradients it was given."""

    def __init__(self, model: torch.nn.Module, seen: list[dict[str, torch.Tensor]]) -> None:
        named = list(model.named_parameters())
        super().__init__([weight for _, weight in named], lr=1.0, momentum=0.5)
        self._named, self._seen = named, seen

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        self._seen.append({name: weight.grad.clone() for name, weight in self._named if weight.grad is not None})
        super().step(closure)


def learn(toy: Path, model: Path, out: Path, case: str, number: int) -> None:
    """Three steps; the gradients of each and the final weights go to a file."""
    from safetensors.torch import save_file
    from toy import toy_data

    from hardneg.encoders.spec import AdapterSpec, ModelSpec

    loss, size = case.split("-")
    adapter = AdapterSpec(rank=4) if loss == "adapter" else None
    encoder = load_learner(ModelSpec(str(model), query_length=16, document_length=24, adapter=adapter), "cpu")
    for part in encoder.module.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
    seen: list[dict[str, torch.Tensor]] = []
    loop.make_optimizer = lambda towers, options: Watched(towers, seen)
    batch_size, accumulate = SIZES[size]
    steps = {"max_steps": 3, "learning_rate": 0.1, "warmup_steps": 0, "clip_norm": None, "precision": "fp32"}
    sizes = {"batch_size": batch_size, "accumulate": accumulate, "chunk": 1 if loss == "chunks" else None}
    options = TrainOptions(negatives_per_query=2, **steps, **sizes)
    data = replace(toy_data(toy), segments=Segments(length=6, count=3) if loss == "segments" else None)
    dual_encoder.train(encoder, data, LOSSES[loss], options, out / f"{number}-{case}", progress=progress.Silent())
    found = {f"{step} {name}": tensor for step, tensors in enumerate(seen, 1) for name, tensor in tensors.items()}
    found |= {f"weight {name}": weight.detach().clone() for name, weight in encoder.module.named_parameters()}
    save_file(found, str(out / f"{number}-{distributed.world().rank}-{case}.safetensors"))


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
        return Star()(batch)


def resume(toy: Path, out: Path, number: int) -> None:
    """Several processes stop at the fourth step and go on from the checkpoint after the second; one does not stop."""
    from toy import BagEncoder, options, toy_data

    here = distributed.world()
    measured: list[int] = []

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
            watched = {"progress": progress.Silent(), "validate": validate}
            result = dual_encoder.train(encoder, data, Fragile(), chosen, folder, **watched)
        except KeyboardInterrupt:
            assert forbidden
    assert (result.steps, result.best_step, result.best) == (6, 6, 0.3)
    assert len(measured) == (3 if here.first else 0)
    assert len(result.history) == 9
    torch.save(encoder.module.state_dict(), out / f"resumed-{number}-{here.rank}.pt")


@pytest.fixture(scope="module")
def learnt(toy_folder: Path, tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of one, two and three processes."""
    out = tmp_path_factory.mktemp("distributed")
    given = [__file__, toy_folder, tiny_model, out]
    running = [process for number in (2, 3) for process in launch([*given, number], number)]
    make_optimizer = loop.make_optimizer
    try:
        main(str(toy_folder), str(tiny_model), str(out), "1")
        assert [process.wait() for process in running] == [0] * 5
    finally:
        loop.make_optimizer = make_optimizer
        for process in running:
            process.kill()
    return out


@pytest.mark.slow
@pytest.mark.parametrize("number", [2, 3])
@pytest.mark.parametrize("case", CASES)
def test_gradients_and_weights_are_those_of_one_process(learnt: Path, number: int, case: str) -> None:
    from safetensors.torch import load_file

    one = load_file(learnt / f"1-0-{case}.safetensors")
    assert sum(name.startswith("3 ") for name in one) > 20
    for rank in range(number):
        several = load_file(learnt / f"{number}-{rank}-{case}.safetensors")
        assert several.keys() == one.keys()
        for name, tensor in one.items():
            torch.testing.assert_close(
                several[name], tensor, rtol=1e-5, atol=1e-6, msg=lambda text, n=name: f"{n} {text}"
            )
    histories = [(learnt / f"{size}-{case}" / "history.jsonl").read_text().splitlines() for size in (1, number)]
    assert len(histories[0]) == len(histories[1]) == 3
    for lines in zip(*histories, strict=True):
        norms = [json.loads(line)["gradient_norms"] for line in lines]
        assert norms[0].keys() >= {"bottom"}
        assert norms[1] == pytest.approx(norms[0], rel=1e-4)


@pytest.mark.slow
def test_all_processes_go_on_from_the_checkpoint(learnt: Path) -> None:
    names = ("1-0", "2-0", "2-1", "3-0", "3-1", "3-2")
    whole, *others = [torch.load(learnt / f"resumed-{name}.pt", weights_only=True) for name in names]
    for other in others:
        for name, tensor in whole.items():
            torch.testing.assert_close(other[name], tensor, rtol=1e-5, atol=1e-6)


def main(toy: str, model: str, out: str, number: str) -> None:
    for case in CASES:
        learn(Path(toy), Path(model), Path(out), case, int(number))
    resume(Path(toy), Path(out), int(number))
    leave()


if __name__ == "__main__":
    main(*sys.argv[1:])
