"""`system` in a stage: an index, a search and two rows."""

import pytest
from recipe.short_forms import problems, stages, written


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
