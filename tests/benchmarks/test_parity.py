"""The comparison with the authors' programs, on made-up programs: what is equal, what differs, what is not there."""

from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
LOSSES = '''
import a_module_that_is_gone

class InBatchPairwiseNLL:
    def __call__(self, scored):
        every = torch.cat([scored["pos_score"], scored["neg_score"]], dim=1)
        return (every.logsumexp(1) - scored["pos_score"].diagonal()).mean()

class PairwiseNLL:
    """Twice what it should be."""
    def __call__(self, scored):
        return 2 * torch.nn.functional.softplus(scored["neg_score"] - scored["pos_score"]).mean()
'''


@pytest.fixture(autouse=True)
def path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    folder = tmp_path / "splade" / "losses"
    folder.mkdir(parents=True)
    (folder / "pairwise.py").write_text(LOSSES)
    return tmp_path


def test_equal_different_and_missing_ones_are_told_apart(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import parity

    assert parity.main(["--splade", str(program)]) == 1
    equal, differs, missing, also = capsys.readouterr().out.splitlines()[2:]
    assert "| SPLADE's loss |" in equal and equal.endswith("| equal |") and "| 5 |" in equal
    assert differs.endswith("| differs |")
    assert "not compared: NotFound: " in missing and "regularization.py" in missing
    assert "transformer_rep.py" in also


def test_functions_methods_and_lines_are_taken_by_name(tmp_path: Path) -> None:
    from originals.source import NotFound, lines, take

    file = tmp_path / "program.py"
    file.write_text(
        "import gone\n\ndef twice(x):\n    return 2 * x + more\n\n"
        "class Model(gone.Base):\n    def four(self, x):\n        return twice(x) + twice(x)\n\n"
        "def train(args):\n    gone.start()\n    for x in args:\n"
        "        loss = 0\n        loss += x\n        loss /= 2\n"
    )
    twice, four = take(file, ["twice", "Model.four"], {"more": 1})
    assert (twice(3), four(None, 3)) == (7, 14)
    space: dict[str, Any] = {"x": 8}
    exec(lines(file, "loss = 0", "loss /="), space)
    assert space["loss"] == 4
    for missing in (["thrice"], ["Model.five"]):
        with pytest.raises(NotFound, match=r"program\.py: no "):
            take(file, missing, {})
    with pytest.raises(NotFound, match="no lines from 'loss = 1' to 'loss /='"):
        lines(file, "loss = 1", "loss /=")


def test_no_cases_or_no_number_is_not_equal() -> None:
    from originals.comparing import Item, compared

    def none(folder: Path) -> Any:
        yield from ()

    def nan(folder: Path) -> Any:
        yield 0.0, 0.0
        yield float("nan"), 0.0

    for check in (none, nan):
        assert not compared(Item("", "", "", check), Path()).equal


@pytest.mark.parametrize("options", [{"warmup_from_zero": False}, {"weight_decay": 0.02}, {"optimizer": "adamw"}])
def test_steps_by_other_settings_come_apart(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """What twenty steps of STAR compare notices a rate, a decay and an optimizer that is another one."""
    import torch
    from originals import steps

    from hardneg.training.options import TrainOptions

    torch.manual_seed(0)
    model = steps._Encoder().double()
    texts = torch.randn(8, 24, dtype=torch.float64)
    loss = lambda model, step: model(texts).square().mean() + model(texts)[:, 0].mean()  # noqa: E731
    settings: dict[str, Any] = {"optimizer": "lamb", "warmup_from_zero": True, "warmup_steps": 5, "learning_rate": 1e-3}
    mine = [steps.deepcopy(model) for _ in range(3)]
    losses = [
        steps._ours(each, loss, TrainOptions(**(settings | more)))
        for each, more in zip(mine, ({}, {}, options), strict=True)
    ]
    assert steps._apart(mine[0], mine[1], (losses[0], losses[1])) == (0, 0)
    assert steps._apart(mine[0], mine[2], (losses[0], losses[2]))[1] > 10 * steps.ITEMS["drhard"][0].within
