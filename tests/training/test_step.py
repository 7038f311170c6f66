"""One update: by hand, its figures, its optimizer and rates, its groups of layers."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from toy import BagEncoder, options, toy_data
from transformers import get_linear_schedule_with_warmup

from hardneg.encoders.encoder import split
from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.spec import ModelSpec
from hardneg.losses.pairwise import Star
from hardneg.records import HISTORY, TrainingError
from hardneg.runtime import World, distributed, join, progress
from hardneg.training import checkpoint, loop, step as step_values
from hardneg.training.methods.dual_encoder import train
from hardneg.training.options import TrainOptions
from hardneg.training.step import (
    Lamb,
    Learner,
    TakenStep,
    gradient_norms,
    layer_groups,
    make_optimizer,
    records,
    schedule_factor,
    update,
)


class Alone:
    """Of accelerate what a step calls, and for which losses gradients were kept from the other processes."""

    def __init__(self) -> None:
        self.apart, self.alone = False, list[bool]()

    @contextmanager
    def no_sync(self, model: Any) -> Iterator[None]:
        self.apart = True
        yield
        self.apart = False

    def backward(self, loss: Tensor) -> None:
        self.alone.append(self.apart)
        loss.backward()

    def clip_grad_norm_(self, weights: Any, longest: float) -> Tensor:
        return nn.utils.clip_grad_norm_(weights, longest)


class Slopes:
    """A loss that is as many times the weight as a batch says, with a penalty of one weight more."""

    encoder = SimpleNamespace(device=torch.device("cpu"))

    def __len__(self) -> int:
        return 3

    def minimised(self, loss: Any, model: Any, batch: Any, half: bool, done: float) -> tuple[Tensor, Tensor]:
        weight = model.weight.sum()
        return batch.slope * weight, weight

    def log_metrics(self, step: int) -> dict[str, Any]:
        return {}


def test_a_step_takes_the_mean_gradient_and_processes_meet_at_its_last_batch() -> None:
    """Slopes 2 + 1, 4 + 1 and 6 + 1 have a mean of 5; at half of a rate of 0.2 the weight goes from 1 to 0.5."""
    model, accelerator = nn.Linear(1, 1, bias=False), Alone()
    nn.init.ones_(model.weight)
    optimizer = torch.optim.SGD([{"params": [model.weight], "factor": 0.5}], lr=1.0)
    groups = {"all": [model.weight]}
    chosen = options(accumulate=3, clip_norm=None)
    learner: Any = Learner(accelerator, Slopes(), model, optimizer, None, chosen, False, groups)  # type: ignore[arg-type]
    batches = [SimpleNamespace(slope=slope, query_ids=[f"q{slope}"]) for slope in (2.0, 4.0, 6.0)]
    taken = update(learner, batches, 0, 0.2)
    assert model.weight.item() == pytest.approx(0.5)
    assert float(taken.norm) == pytest.approx(5) and float(taken.norms["all"]) == pytest.approx(5)
    assert accelerator.alone == [True, True, False]


def step(number: int, losses: list[float], norm: float = 2.0) -> TakenStep:
    batches = [{"loss": torch.tensor(loss), "kept": 3.0} for loss in losses]
    ids, norms = ([[f"q{number}-{place}"] for place in range(len(losses))], {"all": torch.tensor(norm), "none": 0.0})
    return TakenStep(number, ids, batches, 0.5, torch.tensor(norm), norms, {"seen": 7})


def test_records_have_means_and_what_else_was_told():
    norms = {"gradient_norm": 2.0, "gradient_norms": {"all": 2.0, "none": 0.0}}
    expected = {"step": 1, "loss": 1.5, "kept": 3.0, "learning_rate": 0.5, **norms, "seen": 7}
    assert list(records([step(1, [1.0, 2.0])])) == [expected] and list(records([])) == []


def test_steps_before_the_first_bad_one_are_told_and_it_is_named():
    found = records([step(1, [1.0]), step(2, [1.0, torch.nan]), step(3, [torch.nan])])
    assert next(found)["step"] == 1
    with pytest.raises(TrainingError, match="step 2: the loss is nan for queries q2-1; lower"):
        next(found)
    with pytest.raises(TrainingError, match="step 4: the gradient norm is inf for queries q4-0, q4-1; lower"):
        next(records([step(4, [1.0, 1.0], torch.inf)]))


def test_reading_later_changes_no_history(toy_folder, tmp_path, monkeypatch):
    chosen, found = options(max_steps=7, checkpoint_every=5, accumulate=2), []
    for most in (1, 3):
        monkeypatch.setattr(step_values, "AHEAD", {"cpu": most})
        folder = tmp_path / str(most)
        train(BagEncoder(), toy_data(toy_folder), Star(), chosen, folder, progress=progress.Silent())
        found.append((folder / "history.jsonl").read_bytes())
    assert found[0] == found[1] and found[0].count(b"\n") == 7


def test_nothing_bad_is_saved(toy_folder, tmp_path, monkeypatch):
    """The third step is bad, and noticed where a checkpoint is to be written, after the fourth."""
    monkeypatch.setattr(step_values, "AHEAD", {"cpu": 100})
    encoder, chosen = (BagEncoder(), options(max_steps=8, checkpoint_every=2, accumulate=1))
    calls: list[int] = []

    class Bad(Star):
        def __call__(self, batch: object) -> torch.Tensor:
            calls.append(1)
            return super().__call__(batch) * (torch.nan if len(calls) == 3 else 1.0)  # type: ignore[arg-type]

    with pytest.raises(TrainingError, match="step 3: the loss is nan"):
        train(encoder, toy_data(toy_folder), Bad(), chosen, tmp_path, progress=progress.Silent())
    assert len(calls) == 4
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["seconds", "step-000000002"]


def test_a_module_that_is_shared_stays_on_its_own_device(monkeypatch):
    given: dict[str, Any] = {}

    class Wrapped(nn.Sequential):
        def __init__(self, module: nn.Module, **options: Any) -> None:
            given.update(options)
            super().__init__(module)

    monkeypatch.setattr(nn.parallel, "DistributedDataParallel", Wrapped)
    module = nn.Linear(1, 1)
    assert loop.distributed(module) is module
    monkeypatch.setattr(loop, "world", lambda: World(1, 2, 1, 2))
    assert list(loop.distributed(module).children()) == [module]
    assert given == {"find_unused_parameters": True}


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize(("gpus", "backend"), [(1, "gloo"), (2, "cpu:gloo,cuda:nccl")])
def test_processes_that_share_too_few_gpus_agree_on_how_to_meet(monkeypatch, rank, gpus, backend):
    asked: list[str] = []
    monkeypatch.setattr(distributed, "world", lambda: World(rank, 2, rank, 2))
    monkeypatch.setattr(distributed, "_meet", lambda here: None)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: None)
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: False)
    monkeypatch.setattr(torch.distributed, "init_process_group", lambda name, *_: asked.append(name))
    join(on_cpu=False)
    assert asked == [backend]


@pytest.mark.parametrize(
    ("weights", "step", "trust"),
    [([3.0, 4.0], [3.19226766, -3.12227266], 1.1197384255), ([30.0, 40.0], [3.46226766, -2.76227266], 2.257765068)],
)
def test_lamb_takes_the_published_first_step(weights: list[float], step: list[float], trust: float) -> None:
    tensor = nn.Parameter(torch.tensor(weights, dtype=torch.float64))
    tensor.grad = torch.tensor([0.1, -0.2], dtype=torch.float64)
    Lamb([tensor], lr=1e-4, weight_decay=0.01, eps=1e-8).step()
    expected = [value - 1e-4 * trust * part for value, part in zip(weights, step, strict=True)]
    assert tensor.tolist() == pytest.approx(expected, abs=1e-8)
    if weights[0] == 3:
        assert tensor.tolist() == pytest.approx([2.99964255, 4.00034961], abs=1e-8)


def test_lamb_leaves_zero_weights_finite_and_moves_them() -> None:
    tensor = nn.Parameter(torch.zeros(2))
    tensor.grad = torch.tensor([1.0, -1.0])
    Lamb([tensor], lr=0.1).step()
    assert torch.isfinite(tensor).all()
    assert tensor[0] < 0 < tensor[1]


class Head(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.LayerNorm = nn.LayerNorm(2)
        self.frozen = nn.Linear(2, 2)
        self.frozen.requires_grad_(False)
        self.tied = nn.Linear(3, 2)
        self.tied.weight = self.linear.weight


def test_biases_and_layer_norms_do_not_decay() -> None:
    head = Head()
    made = make_optimizer(head, TrainOptions(weight_decay=0.3))
    decayed, free = (group["params"] for group in made.param_groups)
    assert [id(weights) for weights in decayed] == [id(head.linear.weight)]
    exempt = (head.linear.bias, head.LayerNorm.weight, head.LayerNorm.bias, head.tied.bias)
    assert {id(weights) for weights in free} == {id(weights) for weights in exempt}
    assert isinstance(made, torch.optim.AdamW)
    assert [group["weight_decay"] for group in made.param_groups] == [0.3, 0.0]
    assert isinstance(make_optimizer(head, TrainOptions(optimizer="lamb")), Lamb)


def rates(steps: Iterable[int], total: int, **options: Any) -> list[float]:
    return [schedule_factor(step, total, TrainOptions(**options)) for step in steps]


ROCKETQA = {"warmup_steps": 4, "warmup_from_zero": True, "decay_from_start": True}


@pytest.mark.parametrize(
    ("steps", "total", "options", "expected"),
    [
        (range(7), 6, {"warmup_steps": 2}, [1 / 3, 2 / 3, 1, 0.75, 0.5, 0.25, 0]),
        (range(2, 7), 6, {"warmup_steps": 2, "decay": "cosine"}, [1, 0.8535534, 0.5, 0.1464466, 0]),
        (range(4), 3, {"warmup_steps": 1, "decay": "constant"}, [0.5, 1, 1, 1]),
        ([5], 5, {"warmup_steps": 5}, [0]),
        ([0], 1, {"warmup_steps": 0}, [1]),
        ([0, 1], 20, {"warmup_steps": 0, "warmup_from_zero": True}, [1, 19 / 20]),
        # s / W, then 1 - s / S: at the end of the warm-up it falls from 3/4 to 16/20 of the peak
        ([0, 1, 3, 4, 5, 20], 20, ROCKETQA, [0, 1 / 4, 3 / 4, 16 / 20, 15 / 20, 0]),
        ([4, 10, 20], 20, {**ROCKETQA, "warmup_from_zero": False, "decay": "cosine"}, [0.9045085, 0.5, 0]),
        ([9, 10], 95, {}, [10 / 11, 1]),
        ([2], 95, {"warmup_steps": 3}, [3 / 4]),
        ([0], 95, {"warmup_steps": 0}, [1]),
    ],
)
def test_learning_rates_by_hand(steps: Iterable[int], total: int, options: Any, expected: list[float]) -> None:
    assert rates(steps, total, **options) == pytest.approx(expected)


def test_the_learning_rate_of_the_papers_programs() -> None:
    """Steps 0, 1, W, W + 1 and S for W = 4 and S = 20: s / W and (S - s) / (S - W), of transformers' schedule."""
    steps, program = [0, 1, 4, 5, 20], {"warmup_steps": 4, "warmup_from_zero": True}
    assert rates(steps, 20, **program) == pytest.approx([0, 1 / 4, 1, 15 / 16, 0])
    theirs = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    schedule = get_linear_schedule_with_warmup(theirs, 4, 20)
    for step, rate in enumerate(rates(range(21), 20, **program)):
        assert rate == pytest.approx(schedule.get_last_lr()[0]), step
        theirs.step()
        schedule.step()
    assert rates(steps, 20, warmup_steps=4) == pytest.approx([1 / 5, 2 / 5, 1, 15 / 16, 0])


def test_steps_are_full_batches() -> None:
    assert TrainOptions(batch_size=8, epochs=1).total_steps(20) == 3
    assert TrainOptions(batch_size=8, epochs=0.5, accumulate=2).total_steps(64) == 2
    assert TrainOptions(max_steps=7).total_steps(20) == 7


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"batch_size": 0}, "batch_size must be at least 1, not 0"),
        ({"chunk": 0}, "chunk must be at least 1, not 0"),
        ({"clip_norm": -1}, "clip_norm must be at least 0, not -1"),
        ({"learning_rate": 0}, "learning_rate must be above 0, not 0"),
        ({"warmup_ratio": 2}, "warmup_ratio must be between 0 and 1, not 2"),
        ({"epochs": None}, "set epochs or max_steps"),
        ({"decay": "constant", "decay_from_start": True}, "decay_from_start has no effect with decay constant"),
        ({"negatives_drawn": "margin_bins", "negatives_per_query": 0}, "negatives_drawn has no effect with iterate"),
        ({"negatives_drawn": "margin_bins", "iterate_negatives": True}, "negatives_drawn has no effect with iterate"),
        ({"stop_at": 0}, "stop_at must be at least 1, not 0"),
        ({"max_steps": 12, "stop_at": 13}, "stop_at must be at most 12 (max_steps), not 13"),
        ({"max_steps": 12, "keep_every": 13}, "keep_every must be at most 12 (the last step), not 13"),
        ({"stop_at": 5, "keep_every": 6}, "keep_every must be at most 5 (the last step), not 6"),
    ],
)
def test_an_option_that_makes_no_sense_is_named(given: Any, problem: str) -> None:
    (found,) = TrainOptions(**given).problems()
    assert found.startswith(problem)


def test_options_that_make_sense() -> None:
    assert TrainOptions().problems() == TrainOptions(negatives_per_query=0, clip_norm=0).problems() == []
    assert TrainOptions(epochs=1, batch_size=10, stop_at=50).last_step(100) == 10


LATER = {"positive": "first", "negatives_drawn": "margin_bins", "epsilon": 1e-6}
LATER |= {"warmup_from_zero": True, "decay_from_start": True, "stop_at": 3, "keep_every": 3, "chunk": 2, "tf32": True}


@pytest.mark.parametrize("name", LATER)
def test_an_option_that_came_later_counts_where_it_is_not_the_default(name: str) -> None:
    known = TrainOptions().identity()
    assert name not in known and TrainOptions(**{name: LATER[name]}).identity() == {**known, name: LATER[name]}


def test_identity_leaves_out_what_cannot_change_the_weights() -> None:
    first = TrainOptions(checkpoint_every=1, gradient_checkpointing=True)
    assert first.identity() == TrainOptions().identity()
    assert first.identity() != TrainOptions(seed=1).identity()


@pytest.mark.parametrize("name", ["adamw", "lamb"])
def test_epsilon_counts_where_moments_are_small(name: Any) -> None:
    """With a gradient as small as epsilon, a first step of Adam is half as long: g / (g + epsilon)."""
    layer, moved = nn.Linear(1, 1, bias=False), {}
    for epsilon in (1e-12, 1e-3):
        with torch.no_grad():
            layer.weight.fill_(1.0)
        options = TrainOptions(optimizer=name, learning_rate=0.1, weight_decay=0.0, epsilon=epsilon)
        optimizer = make_optimizer(layer, options)
        layer.weight.grad = torch.full((1, 1), 1e-3)
        optimizer.step()
        moved[epsilon] = 1.0 - layer.weight.item()
    assert moved[1e-12] == pytest.approx(0.1, rel=1e-3)
    assert moved[1e-3] == pytest.approx(0.05 if name == "adamw" else 0.1, rel=1e-3)


class Tower(nn.Module):
    """An embedding, layers of one weight each, a head."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(1, 1)
        self.layers = nn.ModuleList(nn.Linear(1, 1, bias=False) for _ in range(layers))
        self.head = nn.Linear(1, 1)


def names(module: nn.Module) -> dict[str, list[str]]:
    known = {id(weights): name for name, weights in module.named_parameters()}
    return {group: [known[id(weights)] for weights in held] for group, held in layer_groups(module).items()}


@pytest.mark.parametrize(("layers", "ends"), [(2, (1, 1)), (3, (1, 2)), (4, (1, 3)), (6, (2, 4)), (12, (4, 8))])
def test_a_layer_goes_where_its_middle_lies_in_each_side_of_a_twin(layers, ends):
    sides, (bottom, top) = ("query", "document"), ends
    found = names(nn.ModuleDict({side: Tower(layers) for side in sides}))
    weights = {side: [f"{side}.layers.{i}.weight" for i in range(layers)] for side in sides}
    assert found["bottom"] == [name for s in sides for name in (f"{s}.embedding.weight", *weights[s][:bottom])]
    assert found.get("middle", []) == [name for s in sides for name in weights[s][bottom:top]]
    heads = {s: [f"{s}.head.weight", f"{s}.head.bias"] for s in sides}
    assert found["top"] == [name for s in sides for name in (*weights[s][top:], *heads[s])]


def test_without_layers_there_is_one_group_and_what_does_not_learn_or_has_its_own_rate_is_not_in_it():
    module = nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1))
    module[0].bias.requires_grad_(False)
    module[1].bias.factor = 2.0
    assert names(module) == {"all": ["0.weight", "1.weight"], "1.bias": ["1.bias"]}


def test_a_transformers_layers_are_found_in_both_forms_of_an_encoder(tiny_model):
    encoder = load_learner(ModelSpec(str(tiny_model)), "cpu")
    found, both = names(encoder.module), names(split(encoder).module)
    assert any("embeddings" in name for name in found["bottom"]) and any("layer" in name for name in found["top"])
    assert {group: 2 * len(held) for group, held in found.items()} == {group: len(held) for group, held in both.items()}


def test_the_norms_are_over_all_gradients_of_a_group_in_float32():
    module = Tower(3)
    gradients = {"embedding.weight": 3.0, "layers.0.weight": 4.0, "layers.1.weight": -2.0, "layers.2.weight": 1.0}
    gradients |= {"head.weight": 2.0, "head.bias": -2.0}
    for name, weights in module.named_parameters():
        weights.grad = torch.full_like(weights, gradients[name])
    assert gradient_norms(layer_groups(module)) == {"bottom": 5.0, "middle": 2.0, "top": 3.0}
    module.layers[1].weight.grad = None
    assert gradient_norms(layer_groups(module))["middle"] == 0.0
    half = nn.Linear(1024, 1, bias=False, dtype=torch.bfloat16)
    half.weight.grad = torch.full_like(half.weight, 1.0078125)  # the number after 1
    assert gradient_norms(layer_groups(half)) == {"all": pytest.approx(32 * 1.0078125, rel=1e-6)}


def test_a_training_notes_them_before_clipping(toy_folder, tmp_path):
    chosen = options(max_steps=3, accumulate=2, clip_norm=1e-3)
    train(BagEncoder(), toy_data(toy_folder), Star(), chosen, tmp_path, progress=progress.Silent())  # type: ignore[arg-type]
    records = checkpoint.History(tmp_path / HISTORY).read()
    assert len(records) == 3
    for record in records:
        assert record["gradient_norms"] == {"all": pytest.approx(record["gradient_norm"], rel=1e-6)}
        assert record["gradient_norm"] > 1e-3
