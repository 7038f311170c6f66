"""What a `paper` preset trains otherwise than another one that it is made of: nothing else is different."""

from collections.abc import Iterator
from typing import Any

import pytest

from hardneg.recipe.language import expand
from hardneg.recipe.yaml_load import find_recipe

FROM_THE_START = {"model": "start", "validation_run": "start-dev"}
ANCE = {f"ance.{path}": value for path, value in FROM_THE_START.items()} | {"ance.options.learning_rate": "5e-6"}
QUESTIONS = {f"rocketqa-{step}.options.batch_size": 1024 for step in (1, 3, 4)}
VARIANTS: dict[tuple[str, str], dict[str, Any]] = {
    ("ance-document", "ance-passage"): ANCE,
    ("ance-maxp-document", "ance-document"): {"ance.options.batch_size": 8, "ance.options.accumulate": 8},
    ("ance-rates-document", "ance-document"): {},
    ("ance-table1-document", "ance-table1"): ANCE
    | {
        f"ance-warm-{row}-neg.{path}": value
        for row in ("rand", "nce", "bm25-rand")
        for path, value in FROM_THE_START.items()
    },
    ("ance-baselines-document", "ance-table1"): {"ance-nce-neg.options.gradient_checkpointing": True},
    ("adore-ance-document", "adore-ance-passage"): ANCE | {"adore-ance.loss.cut": 10},
    ("cort-dl20", "cort-bm25"): {},
    ("cort-electra-dl20", "cort-electra-passage"): {},
    ("rocketqa-nq-table7", "rocketqa-nq"): {},
    ("rocketqa-nq", "rocketqa-passage"): QUESTIONS
    | {"rocketqa-1.options.epochs": 30, "rocketqa-3.options.epochs": 30, "rocketqa-4.options.epochs": 30}
    | {"rocketqa-1.validation_run": "bm25-dev"}
    | {"cross-encoder.options.batch_size": 32, "cross-encoder.options.negatives_per_query": 1},
    ("adore-pq", "adore-bm25-neg-passage"): {},
}


def leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, (*path, str(key)))
    else:
        yield ".".join(path), value


def trainings(name: str) -> dict[str, dict[str, Any]]:
    stages = expand(find_recipe(name), "paper", [], checked=False).tree["stages"]
    return {name: dict(leaves(spec)) for name, spec in stages.items() if spec["stage"].startswith("train")}


@pytest.mark.parametrize(("variant", "other"), VARIANTS)
def test_it_trains_as_the_other_does_but_for_this(variant: str, other: str) -> None:
    found, before = trainings(variant), trainings(other)
    changed = {
        f"{stage}.{path}": value
        for stage in found.keys() & before.keys()
        for path, value in found[stage].items()
        if before[stage].get(path) != value
    }
    assert found.keys() & before.keys() and changed == VARIANTS[variant, other]


def test_questions_are_trained_by_epochs() -> None:
    """Of what a passage's training says, the numbers of steps alone are gone."""
    found, before = trainings("rocketqa-nq"), trainings("rocketqa-passage")
    gone = {f"{stage}.{path}" for stage in before for path in before[stage].keys() - found[stage].keys()}
    assert gone == {"rocketqa-1.options.max_steps", "rocketqa-3.options.max_steps"}


def test_rates_on_documents_are_the_papers() -> None:
    """ANCE, Table 7: rate, depth, refresh; and 5e-6, 200, 10,000, the row of ANCE."""
    rows = trainings("ance-rates-document")
    keys = ("options.learning_rate", "refresh.depth", "refresh.every")
    assert {stage: tuple(rows[stage][key] for key in keys) for stage in rows} == {
        "ance": ("5e-6", 200, 10_000),
        "ance-a": ("1e-5", 100, 10_000),
        "ance-b": ("1e-6", 100, 20_000),
        "ance-c": ("1e-6", 100, 5_000),
        "ance-d": ("1e-6", 200, 10_000),
    }


def test_each_index_of_table_5_is_trained_on_alike() -> None:
    rows = trainings("adore-pq")
    plain = {path: value for path, value in rows["adore-bm25-neg"].items() if path != "index"}
    for size in (6, 12, 24, 48, 96):
        assert rows[f"adore-pq{size}"] == {**plain, "index": f"pq{size}"}
    assert rows["jpq48"] == {**plain, "index": "opq48", "centroids": "trained"}


def test_table_7s_other_rows_differ_by_their_negatives() -> None:
    rows = trainings("rocketqa-nq-table7")
    one, three = rows["rocketqa-1"], rows["rocketqa-3"]
    assert rows["in-batch"] == {**one, "options.batch_size": 512, "options.accumulate": 2}
    assert rows["not-denoised"] == {**three, "negatives": "top-negatives"}
