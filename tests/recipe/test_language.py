"""The short forms of recipes, each beside what is written by hand."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from hardneg.cli.main import app
from hardneg.recipe.language import Expanded, expand
from hardneg.recipe.load import load_recipe
from hardneg.recipe.yaml_load import find_recipe
from hardneg.records.errors import RecipeError, UsageError

RECIPES = Path(__file__).parents[2] / "docs" / "recipes.md"
SHORT_FORMS = ("defaults", "system", "for")
HEAD = "dataset: pydocs\nmodel: packaged:all-MiniLM-L6-v2\n"


def expanded(folder: Path, text: str, preset: str | None = None, settings: tuple[str, ...] = ()) -> Expanded:
    path = folder / "r.yaml"
    path.write_text(HEAD + text)
    return expand(path, preset, settings)


def stages(folder: Path, text: str, preset: str | None = None, settings: tuple[str, ...] = ()) -> dict[str, Any]:
    found = expanded(folder, text, preset, settings)
    assert found.problems == []
    return found.tree["stages"]


def problems(folder: Path, text: str, preset: str | None = None, settings: tuple[str, ...] = ()) -> list[str]:
    path = folder / "r.yaml"
    path.write_text(HEAD + text)
    with pytest.raises(RecipeError) as caught:
        load_recipe(path, preset, settings)
    return list(caught.value.problems)


def written(text: str) -> dict[str, Any]:
    return yaml.safe_load(text)


EXAMPLES = re.findall(r"```yaml\n([^`]*)```\n\ncomes to\n\n```yaml\n([^`]*)```", RECIPES.read_text(encoding="utf-8"))


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_the_examples_of_the_page_come_to_what_it_says(tmp_path, number):
    short, plain = EXAMPLES[number]
    assert stages(tmp_path, short) == written(plain)["stages"]


def test_the_page_has_an_example_of_each_short_form():
    assert len(EXAMPLES) == 4 and all(any(f"{key}:" in short for short, _ in EXAMPLES) for key in SHORT_FORMS)


def test_defaults_are_laid_under_each_stage_of_the_verb(tmp_path):
    text = """
defaults:
  search: {depth: 50}
  train: {validation: {split: dev, depth: 10}, options: {optimizer: lamb, max_steps: 5}}
stages:
  a: {stage: search, index: i}
  b: {stage: search, index: i, depth: 7}
  t: {stage: train, loss: nll, options: {max_steps: 9}}
  u: {stage: train, loss: nll, validation: null, options: {optimizer: null}}
  e: {stage: encode}
"""
    plain = """
a: {stage: search, index: i, depth: 50}
b: {stage: search, index: i, depth: 7}
t: {stage: train, loss: nll, validation: {split: dev, depth: 10}, options: {optimizer: lamb, max_steps: 9}}
u: {stage: train, loss: nll, options: {max_steps: 5}}
e: {stage: encode}
"""
    assert stages(tmp_path, text) == written(plain)


def test_a_plugin_of_another_name_takes_none_of_the_defaults_options(tmp_path):
    text = """
defaults: {train-queries: {loss: {name: lambda, cut: 200, temperature: 0.05}}, train: {loss: {temperature: 0.05}}}
stages:
  a: {stage: train-queries, index: i}
  b: {stage: train-queries, index: i, loss: {name: ranknet}}
  c: {stage: train-queries, index: i, loss: {cut: 10}}
  d: {stage: train, loss: {name: nll}}
  e: {stage: train, loss: hardest}
"""
    found = stages(tmp_path, text)
    assert [found[name]["loss"] for name in "abcde"] == [
        {"name": "lambda", "cut": 200, "temperature": 0.05},
        {"name": "ranknet"},
        {"name": "lambda", "cut": 10, "temperature": 0.05},
        {"name": "nll", "temperature": 0.05},
        "hardest",
    ]


def test_presets_and_settings_change_defaults_and_stages_go_before_them(tmp_path):
    text = """
defaults: {train: {options: {max_steps: 5, batch_size: 2}}}
stages: {t: {stage: train, loss: nll, options: {batch_size: 3}}}
presets:
  large: {defaults: {train: {options: {max_steps: 500, batch_size: 200}}}}
  own: {stages: {t: {options: {max_steps: null}}}}
"""
    assert stages(tmp_path, text)["t"]["options"] == {"max_steps": 5, "batch_size": 3}
    assert stages(tmp_path, text, "large")["t"]["options"] == {"max_steps": 500, "batch_size": 3}
    assert stages(tmp_path, text, "own")["t"]["options"] == {"batch_size": 3}
    more = ("defaults.train.options.max_steps=7", "stages.t.options.batch_size=1")
    assert stages(tmp_path, text, "large", more)["t"]["options"] == {"max_steps": 7, "batch_size": 1}


def test_a_null_that_removes_nothing_is_a_value(tmp_path):
    found = stages(tmp_path, "stages: {t: {stage: train, loss: nll, options: {clip_norm: null}}}")
    assert found["t"]["options"] == {"clip_norm": None}


LINE = "stages: {i: {stage: encode}, t: {stage: search, index: i}}\n"


@pytest.mark.parametrize(
    ("defaults", "told"),
    [
        ("{serch: {depth: 3}}", "defaults.serch: no stage 'serch'; did you mean 'search'"),
        ("{search: {dept: 3}}", "defaults.search.dept: no such option; did you mean 'depth'; it has: "),
        ("{search: {depth: many}}", "defaults.search.depth: must be a whole number (got 'many')"),
        ("{train: {options: {optimzer: lamb}}}", "defaults.train.options.optimzer: no such option; did you mean 'opt"),
        ("{search: deep}", "defaults.search: must be a mapping of options"),
        ("{search: {stage: mine}}", "defaults.search.stage: leave it out; the defaults are those of stage 'search'"),
        ("3", "defaults: must map a verb to options of its stages"),
    ],
)
def test_a_mistake_in_a_default_is_told_with_its_own_path(tmp_path, defaults, told):
    (only,) = problems(tmp_path, f"defaults: {defaults}\n{LINE}")
    assert only.replace("?", "").startswith(told.replace("?", "")), only


BASE = """
defaults: {train: {loss: {temperature: 0.05}, options: {max_steps: 3}}}
stages: {i: {stage: encode}, n: {stage: train, loss: nll, options: {negatives_per_query: 0}}}
"""


@pytest.mark.parametrize(
    ("top", "stage", "told"),
    [
        ("", "{stage: train, loss: nll, options: {negatives_per_query: 0}}", "options.max_steps"),
        ("", "{stage: train, loss: {name: nll}, options: {max_steps: 9, negatives_per_query: 0}}", "loss.temperature"),
        ("", "{stage: train, loss: nll, options: {max_steps: 9, negatives_per_query: 0}}", ""),
        ("", "{stage: train, loss: nll, options: {max_steps: null, negatives_per_query: 0}}", ""),
        ("defaults: {train: {options: {batch_size: 8}}}\n", "{stage: train, loss: nll}", ""),
        ("", "{stage: train, loss: nll, system: M}", ""),
    ],
)
def test_a_recipe_without_short_forms_is_told_what_its_stages_take_from_those_of_another(tmp_path, top, stage, told):
    (tmp_path / "base.yaml").write_text(HEAD + BASE)
    path = tmp_path / "child.yaml"
    path.write_text(f"extends: base.yaml\n{top}stages: {{m: {stage}}}\n")
    line = f"stages.m: takes {told} from the `defaults` of a recipe that this one extends; write your own, or null"
    assert [note[: len(line)] for note in expand(path, None, ()).notes] == ([line] if told else [])


def test_a_plugins_option_that_a_default_has_is_told_with_the_defaults_path(tmp_path):
    (tmp_path / "base.yaml").write_text(HEAD + BASE)
    path = tmp_path / "child.yaml"
    stage = "{stage: train, loss: {name: triplet, margin: 0.1}, options: {negatives_per_query: 0}}"
    path.write_text(f"extends: base.yaml\nstages: {{m: {stage}}}\n")
    with pytest.raises(RecipeError, match=r"defaults\.train\.loss: temperature: triplet has no such option"):
        load_recipe(path)


def test_an_unknown_key_at_the_top_is_told_with_the_short_forms(tmp_path):
    (only,) = problems(tmp_path, f"fr: {{k: [a]}}\n{LINE}")
    assert only.startswith("fr: no such option; did you mean 'for'?; it has: title, ")
    assert only.endswith("extends, presets, defaults, for")


def test_a_mistake_of_several_stages_in_one_default_is_told_once(tmp_path):
    searches = "{i: {stage: encode}, a: {stage: search, index: i}, b: {stage: search, index: i}}"
    text = f"defaults: {{search: {{dept: 3}}}}\nstages: {searches}"
    (only,) = problems(tmp_path, text)
    assert only.startswith("defaults.search.dept: no such option")


def test_a_default_for_a_verb_that_a_recipe_has_no_stage_of_waits_for_those_that_extend_it(tmp_path):
    (tmp_path / "base.yaml").write_text(HEAD + "defaults: {train: {options: {max_steps: 3}}}\n" + LINE)
    load_recipe(tmp_path / "base.yaml")
    path = tmp_path / "child.yaml"
    path.write_text("extends: base.yaml\nstages: {m: {stage: train, loss: nll, options: {negatives_per_query: 0}}}\n")
    assert load_recipe(path).tree["stages"]["m"]["options"] == {"negatives_per_query": 0, "max_steps": 3}


def test_a_system_is_an_index_a_search_and_two_rows(tmp_path):
    text = """
stages:
  star: {stage: train, loss: star, system: STAR}
  scores: {stage: evaluate, runs: {BM25: bm25}}
  report: {stage: report, evaluation: scores}
  bm25: {stage: search, index: bm25-index}
"""
    found = stages(tmp_path, text)
    assert list(found) == ["star", "star-index", "star-test", "scores", "report", "bm25"]
    plain = """
star: {stage: train, loss: star}
star-index: {stage: encode, model: star}
star-test: {stage: search, index: star-index}
scores: {stage: evaluate, runs: {BM25: bm25, STAR: star-test}}
report: {stage: report, evaluation: scores, training: {STAR: star}}
bm25: {stage: search, index: bm25-index}
"""
    assert found == written(plain)
    assert list(found["scores"]["runs"]) == ["STAR", "BM25"]


def test_rows_stand_in_the_order_in_which_a_recipe_and_its_parents_have_them(tmp_path):
    (tmp_path / "base.yaml").write_text(
        """
stages:
  scores: {stage: evaluate, runs: {BM25: bm25}}
  a: {stage: train, loss: nll, system: A}
presets:
  paper:
    defaults: {system: {searches: {dev: {split: dev, evaluation: dev-scores}}}}
    stages: {dev-scores: {stage: evaluate, runs: {BM25: bm25-dev}}, scores: {runs: {late: x}}}
"""
    )
    text = "extends: base.yaml\nstages: {scores: {runs: {fused: f}}, b: {stage: train, loss: nll, system: B}}"
    assert list(stages(tmp_path, text)["scores"]["runs"]) == ["BM25", "A", "fused", "B"]
    paper = stages(tmp_path, text, "paper")
    assert list(paper["scores"]["runs"]) == ["BM25", "A", "fused", "B", "late"]
    assert list(paper["dev-scores"]["runs"]) == ["BM25", "A", "B"]


def test_a_system_may_say_its_searches_and_where_its_rows_are(tmp_path):
    text = """
defaults:
  system: {searches: {rerank: {candidates: bm25, row: "{name} (rerank)"}, dev: {split: dev, evaluation: dev-scores}}}
  search: {depth: 9}
stages:
  a: {stage: train, loss: nll, system: A}
  b:
    stage: train
    loss: nll
    system:
      name: B
      report: false
      encode: {precision: fp32}
      searches: {rerank: null, test: {depth: 3, row: false}}
  b-test: {precision: bf16}
  q:
    stage: train-queries
    model: a
    index: a-index
    loss: lambda
    system: {name: Q, searches: &own {dev: null, rerank: null}}
  c: {stage: train-queries, model: a, index: p, loss: lambda, system: {name: C, index: c, searches: *own}}
  scores: {stage: evaluate, runs: {A (rerank): null, Q: other}}
  dev-scores: {stage: evaluate, split: dev}
  report: {stage: report, evaluation: scores}
"""
    plain = """
a: {stage: train, loss: nll}
a-index: {stage: encode, model: a}
a-test: {stage: search, index: a-index, depth: 9}
a-rerank: {stage: search, index: a-index, candidates: bm25, depth: 9}
a-dev: {stage: search, index: a-index, split: dev, depth: 9}
b: {stage: train, loss: nll}
b-index: {stage: encode, model: b, precision: fp32}
b-test: {stage: search, index: b-index, depth: 3, precision: bf16}
b-dev: {stage: search, index: b-index, split: dev, depth: 9}
q: {stage: train-queries, model: a, index: a-index, loss: lambda}
q-test: {stage: search, index: a-index, model: q, depth: 9}
c: {stage: train-queries, model: a, index: p, loss: lambda}
c-test: {stage: search, index: c, depth: 9}
scores: {stage: evaluate, runs: {Q: other, A: a-test, C: c-test}}
dev-scores: {stage: evaluate, split: dev, runs: {A: a-dev, B: b-dev}}
report: {stage: report, evaluation: scores, training: {A: a, Q: q, C: c}}
"""
    assert stages(tmp_path, text) == written(plain)


def test_a_preset_removes_what_a_system_stands_for(tmp_path):
    text = """
stages: {a: {stage: train, loss: nll, system: A}, scores: {stage: evaluate, runs: {}}}
presets: {other: {stages: {a-test: null, a-index: {precision: fp32}}}, none: {stages: {a: {system: null}}}}
"""
    assert set(stages(tmp_path, text)) == {"a", "a-index", "a-test", "scores"}
    other = stages(tmp_path, text, "other")
    assert set(other) == {"a", "a-index", "scores"} and other["scores"]["runs"] == {}
    assert other["a-index"] == {"stage": "encode", "model": "a", "precision": "fp32"}
    assert set(stages(tmp_path, text, "none")) == {"a", "scores"}


TWICE = "stages.a.system: 'A' in 'scores' is a row of stages.a.system already"


@pytest.mark.parametrize(
    ("system", "told"),
    [
        ("3", "stages.a.system.name: must be a text (got 3)"),
        ("{nam: A}", "stages.a.system.name: missing"),
        ("{name: A, serches: {}}", "stages.a.system.serches: no such option; did you mean 'searches'?; it has: "),
        ("{name: A, searches: {test: deep}}", "stages.a.system.searches.test: must be a mapping of names to values"),
        ("{name: A, evaluation: scoers}", "stages.a.system: no stage 'scoers'; did you mean 'scores'?, for 'A'"),
        ("{name: B}", f"{TWICE.replace('a.s', 'b.s', 1).replace('A', 'B')}; name one otherwise"),
        ("{name: A, searches: {dev: {split: dev}}}", f"{TWICE}; give the search a `row` of its own"),
        ("{name: A, searches: {test: {dept: 3}}}", "stages.a-test.dept: no such option; did you mean 'depth'"),
    ],
)
def test_a_mistake_in_a_system_is_told_with_its_path(tmp_path, system, told):
    text = f"""
stages:
  a: {{stage: train, loss: {{name: nll}}, options: {{negatives_per_query: 0}}, system: {system}}}
  b: {{stage: train, loss: {{name: nll}}, options: {{negatives_per_query: 0}}, system: B}}
  scores: {{stage: evaluate, runs: {{}}}}
"""
    found = problems(tmp_path, text)
    assert any(line.startswith(told) for line in found), found
    assert "test: {dept" not in system or "(from stages.a.system)" in found[0]


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


def test_what_show_prints_is_the_same_recipe(tmp_path):
    for preset in ("demo", "paper"):
        shown = CliRunner().invoke(app, ["recipe", "show", "adore-pq", "--expanded", "--preset", preset])
        assert "for:" not in shown.output and "defaults:" not in shown.output
        path = tmp_path / f"{preset}.yaml"
        path.write_text(shown.output, encoding="utf-8")
        assert load_recipe(path).stages == load_recipe(find_recipe("adore-pq"), preset).stages
    refused = CliRunner().invoke(app, ["recipe", "show", "adore-pq", "--preset", "paper"])
    assert isinstance(refused.exception, UsageError) and "add --expanded" in str(refused.exception)
    wrong = CliRunner().invoke(app, ["recipe", "show", "adore-pq", "--expanded", "--set", "defaults.serch.depth=3"])
    assert isinstance(wrong.exception, RecipeError) and "did you mean 'search'" in str(wrong.exception)
