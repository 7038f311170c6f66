"""`for`: one stage for each name."""

import pytest
from recipe.short_forms import problems, stages, written

GRID = """
for:
  kind: {"6": {index: pq6, backend: {name: pq, subvectors: 6}}, OPQ 48: {index: opq48, backend: opq-pq}}
stages:
  "{kind.index}": {stage: index, vectors: i, backend: "{kind.backend}"}
  adore-{kind.index}:
    for: {rate: [1e-5, 1e-6]}
    stage: train-queries
    index: "{kind.index}"
    loss: lambda
  "{size}":
    for: {size: [12, 24]}
    stage: index
    vectors: i
    backend: {name: pq, subvectors: "{size}"}
  cells:
    stage: evaluate
    runs: {"{kind} → it": "{kind.index}-it", other: o}
  "{{}}": {stage: encode}
"""


def test_a_key_with_names_stands_for_one_of_each(tmp_path):
    plain = """
pq6: {stage: index, vectors: i, backend: {name: pq, subvectors: 6}}
opq48: {stage: index, vectors: i, backend: opq-pq}
adore-pq6: {stage: train-queries, index: pq6, loss: lambda}
adore-opq48: {stage: train-queries, index: opq48, loss: lambda}
"12": {stage: index, vectors: i, backend: {name: pq, subvectors: 12}}
"24": {stage: index, vectors: i, backend: {name: pq, subvectors: 24}}
cells: {stage: evaluate, runs: {6 → it: pq6-it, OPQ 48 → it: opq48-it, other: o}}
"{}": {stage: encode}
"""
    assert stages(tmp_path, GRID) == written(plain)


def test_keys_within_keys_make_a_matrix(tmp_path):
    text = """
stages:
  table:
    for: {row: [24, flat], column: [24, flat]}
    stage: analyze
    rows: {"{row}": {"{column}": "{row} → {column}"}, flat: {flat: null}}
"""
    found = stages(tmp_path, text)
    assert found["table"]["rows"] == {"24": {"24": "24 → 24", "flat": "24 → flat"}, "flat": {"24": "flat → 24"}}


def test_what_is_written_is_laid_over_what_a_for_gives(tmp_path):
    text = """
for: {n: [1, 2, 3]}
stages:
  s{n}: {stage: search, index: i, depth: "{n}"}
  s2: {split: dev}
  s3: null
presets: {deep: {stages: {"s{n}": {depth: 100}, s1: null}}, fewer: {for: {n: [7]}, stages: {s2: null}}}
"""
    assert stages(tmp_path, text) == {
        "s1": {"stage": "search", "index": "i", "depth": 1},
        "s2": {"stage": "search", "index": "i", "depth": 2, "split": "dev"},
    }
    assert stages(tmp_path, text, "deep") == {"s2": {"stage": "search", "index": "i", "depth": 100, "split": "dev"}}
    assert stages(tmp_path, text, "fewer") == {"s7": {"stage": "search", "index": "i", "depth": 7}}
    assert stages(tmp_path, text, "fewer", ("for.n=[8, 9]", "stages.s{n}.depth=5"))["s9"]["depth"] == 5


def test_a_system_may_stand_in_a_for(tmp_path):
    text = """
stages:
  t{n}: {for: {n: [1, 2]}, stage: train, loss: nll, system: "of {n}"}
  scores: {stage: evaluate, runs: {}}
"""
    found = stages(tmp_path, text)
    assert list(found) == ["t1", "t1-index", "t1-test", "t2", "t2-index", "t2-test", "scores"]
    assert found["scores"]["runs"] == {"of 1": "t1-test", "of 2": "t2-test"}


def test_braces_are_text_where_no_for_is(tmp_path):
    text = 'stages: {"a{b}": {stage: encode, model: "{x"}}'
    assert stages(tmp_path, text) == {"a{b}": {"stage": "encode", "model": "{x"}}


ENCODE = "{stage: encode}"


@pytest.mark.parametrize(
    ("grid", "stage", "told"),
    [
        ("{n: [1]}", "s{m}: {stage: encode}", "stages.s{m}: {m} is unknown"),
        ("{name: [1]}", "s{name}: {stage: encode, model: '{nmae}'}", "stages.s{name}.model: {nmae} is unknown; did"),
        ("{n: [1]}", "s: {stage: encode, model: '{n}'}", "stages.s.model: {n} is unknown; fixed by a key here: none"),
        ("{n: {a: {x: 1}}}", "s{n}: {stage: encode, model: '{n.y}'}", "stages.s{n}.model: {n.y}: 'a' has no 'y'"),
        ("{n: {a: {x: [1]}}}", "s{n.x}: {stage: encode}", "stages.s{n.x}: {n.x} is no word or number"),
        ("{n: []}", "s{n}: {stage: encode}", "for.n: must be a list of words"),
        ("[n]", "s: {stage: encode}", "for: must map a name to the words"),
        ("{n: [1, 1]}", "s{n}: {stage: encode}", "for.n: a word stands here twice"),
        ("{a b: [1]}", "s: {stage: encode}", "for.a b: a name has letters"),
        ("{n: [1]}", "s{n}: {for: {n: [2]}, stage: encode}", "stages.s{n}.for.n: is the name of something around it"),
        ("{n: [1], m: [1]}", "s{n}: {stage: encode}\n  s{m}: {stage: encode}", "stages.s{m}: gives 's1', which 's{n}'"),
        ("{n: [1, 2]}", "s{n}: {stage: serch}", "stages.s1.stage: no stage 'serch'; did you mean 'search'?; one of: "),
    ],
)
def test_a_mistake_in_a_grid_is_told_with_the_path_that_was_written(tmp_path, grid, stage, told):
    found = problems(tmp_path, f"for: {grid}\nstages:\n  {stage}\n")
    assert found[0].startswith(told), found
    assert "serch" not in stage or found[0].endswith("(from stages.s{n})")


def test_a_grid_is_bounded(tmp_path):
    words = "[" + ", ".join(map(str, range(300))) + "]"
    many = problems(tmp_path, f"for: {{a: {words}, b: {words}}}\nstages: {{'{{a}}-{{b}}': {ENCODE}}}\n")
    assert many[0].endswith("over 50000 values come out of `for` in all")
    long = problems(tmp_path, f"for: {{a: [{'x' * 400}]}}\nstages: {{'{{a}}{{a}}{{a}}': {ENCODE}}}")
    assert long[0].endswith("comes to a text of over 1000 characters")
