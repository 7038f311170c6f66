import json

import numpy as np
import pytest
import yaml
from recipes.recipes import artifacts_of, small_collection, small_tree, write_recipe

from hardneg.recipes.execute import Options, Watcher, execute, usage
from hardneg.recipes.load import load_recipe
from hardneg.recipes.plan import make_plan
from hardneg.recipes.run_folder import publish
from hardneg.records.errors import ArtifactError, HardnegError
from hardneg.store.artifacts import Store


class Notes:
    """Keeps the notes, shows no bars."""

    def __init__(self):
        self.lines = []

    def note(self, text):
        self.lines.append(text)

    def task(self, *arguments, **options):
        from hardneg.runtime.progress import Silent

        return Silent().task(*arguments, **options)


@pytest.fixture(scope="module")
def finished(tmp_path_factory, tiny_model):
    folder = tmp_path_factory.mktemp("recipe")
    path = write_recipe(folder / "small.yaml", small_tree(small_collection(folder / "data"), tiny_model))
    store = Store(folder / "store")
    plan = make_plan(load_recipe(path))
    outcome = execute(plan, store, Options(device="cpu"), Watcher())
    publish(plan, outcome.artifacts, store, folder / "out")
    return folder, path, store, plan, outcome


def again(path, store, settings=(), **options):
    notes = Notes()
    plan = make_plan(load_recipe(path, settings=settings))
    outcome = execute(plan, store, Options(device="cpu", **options), Watcher(progress=notes))
    return outcome, notes.lines


def test_all_steps_run_once(finished):
    _, path, store, plan, outcome = finished
    assert outcome.ran == tuple(plan.steps)
    assert again(path, store)[0].ran == ()


@pytest.mark.parametrize(("told", "lines"), [(60, 0), (0, 0), (61, 1)])
def test_a_dataset_of_another_size_than_the_recipe_tells_is_noted(finished, told, lines):
    notes = again(*finished[1:3], [f"sizes.documents={told}"], until="dataset")[1]
    noted = [line for line in notes if line.startswith("60 documents, where the recipe's") and "is 61: " in line]
    assert len(noted) == lines


def test_the_report_shows_what_was_found_for_each_query(finished):
    out = finished[0] / "out"
    page, [head, *rows] = (out / "report.html").read_text(), (out / "queries.tsv").read_text().splitlines()
    assert len(rows) == page.count("<details>") == 14
    assert head.startswith("query_id\tmrr@10 ") and head.endswith("\tdifference\ttext")
    assert "<summary>heavy copper</summary>" in page and "was seen again near" in page


def test_the_run_folder_has_stable_names(finished):
    folder = finished[0]
    out = folder / "out"
    names = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
    runs = {f"runs/{name}-{split}.trec.gz" for name, split in (("start", "test"), ("start", "train"), ("star", "test"))}
    pages = {"metrics.json", "recipe.lock.yaml", "report.html", "report.md", "queries.tsv"}
    assert {"index/index", "index/docid", "model/modules.json", *runs, *pages} <= names
    assert not [name for name in names if name.endswith(("manifest.json", ".new"))]
    lock = yaml.safe_load((out / "recipe.lock.yaml").read_text())
    assert lock["keys"]["star"] == finished[3].steps["star"].key


def test_the_model_opens_in_sentence_transformers(finished):
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(finished[0] / "out" / "model"), device="cpu")
    assert model.encode(["the old river"]).shape == (1, 32)


def test_the_model_card_says_what_it_was_trained_on_and_how_it_scored(finished):
    card = (finished[0] / "out" / "model" / "README.md").read_text()
    assert "60 passages, 36 training queries" in card and "TopK(depth=10" in card
    assert "| STAR |" in card.split("## Scores")[1].split("## Use")[0]
    assert str(finished[0]) not in card


def test_the_metrics_have_every_system_and_test(finished):
    metrics = json.loads((finished[0] / "out" / "metrics.json").read_text())
    assert set(metrics["metrics"]) == {"start", "STAR"}
    assert len(metrics["per_query"]["STAR"]["mrr@10"]) == 14
    assert {item["metric"] for item in metrics["comparisons"]} == {"mrr@10", "recall@10"}


def test_one_changed_option_runs_what_depends_on_it(finished):
    _, path, store, _, _ = finished
    outcome, _ = again(path, store, ["stages.star.options.max_steps=3"])
    assert outcome.ran == ("star", "star-index", "star-test", "scores", "report")


def test_kept_models_stand_in_the_run_folder_and_are_models_to_begin_with(finished, tmp_path):
    _, path, store, _, _ = finished
    plan = make_plan(load_recipe(path, settings=["stages.star.options.keep_every=2"]))
    outcome = execute(plan, store, Options(until="star", device="cpu"), Watcher())
    publish(plan, outcome.artifacts, store, tmp_path / "out")
    kept = tmp_path / "out" / "checkpoints" / "star"
    assert {place.name for place in kept.iterdir()} == {"step-2", "step-4"}
    last = (kept / "step-4" / "model.safetensors").read_bytes()
    assert last == (outcome.artifacts["star"].path / "model" / "model.safetensors").read_bytes()
    found, _ = again(path, store, [f"model.name={kept / 'step-2'}"], until="start-test")
    assert found.ran == ("start-index", "start-test")


def test_an_index_built_from_vectors_is_searched_with_their_model(finished):
    folder, path, store, _, outcome = finished
    tree = yaml.safe_load(path.read_text())
    tree["stages"] = {
        "start-index": {"stage": "encode"},
        "again": {"stage": "index", "backend": "flat", "vectors": "start-index"},
        "start-test": {"stage": "search", "index": "again", "split": "test", "depth": 20},
    }
    found, _ = again(write_recipe(folder / "flat.yaml", tree), store)
    assert found.ran == ("again", "start-test")
    first, second = (item.artifacts["start-test"].path / "run.trec.gz" for item in (outcome, found))
    assert first.read_bytes() == second.read_bytes()


def test_force_runs_a_step_and_its_dependents(finished):
    _, path, store, _, _ = finished
    assert again(path, store, force=("scores",))[0].ran == ("scores", "report")


@pytest.mark.slow
def test_the_same_recipe_elsewhere_gives_the_same_bytes(finished, tmp_path):
    _, path, _store, _plan, outcome = finished
    other, _ = again(path, Store(tmp_path / "store"), until="star-test")
    for name in ("static", "star", "star-test"):
        first, second = outcome.artifacts[name].path, other.artifacts[name].path
        every = (file for file in first.rglob("*") if file.is_file())
        files = [file.relative_to(first) for file in every if file.name != "manifest.json"]
        assert files
        for file in files:
            assert (first / file).read_bytes() == (second / file).read_bytes(), (name, file)


def test_a_damaged_artifact_is_made_again_with_a_note(finished):
    _, path, store, _plan, outcome = finished
    run = outcome.artifacts["star-test"].path / "run.trec.gz"
    content = run.read_bytes()
    run.unlink()
    run.write_bytes(content[:-3])
    repeated, notes = again(path, store)
    assert repeated.ran == ("star-test",)
    assert any("damaged" in note and "made again" in note for note in notes)
    assert run.read_bytes() == content


def test_a_failing_stage_leaves_the_rest(finished, tmp_path, monkeypatch):
    _, path, _, _, _ = finished
    store = Store(tmp_path / "store")

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("hardneg.formats.negatives.write_negatives", full)
    with pytest.raises(ArtifactError, match="disk is full"):
        again(path, store)
    monkeypatch.undo()
    outcome, _ = again(path, store, until="static")
    assert outcome.ran == ("static",)


def test_the_seconds_of_a_training_that_went_on_are_those_of_all_its_runs(finished, monkeypatch):
    from hardneg.training import loop

    _, path, store, _, _ = finished
    settings, update = ["stages.star.options.seed=9", "stages.star.options.checkpoint_every=1"], loop.update

    def stops(learner, batches, step, rate):
        if step == 2:
            raise KeyboardInterrupt
        return update(learner, batches, step, rate)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(loop, "update", stops)
        again(path, store, settings, until="star")
    facts = again(path, store, settings, until="star")[0].artifacts["star"].facts
    assert facts["seconds"] > facts["earlier seconds"] > 0
    assert "earlier seconds" not in finished[4].artifacts["star"].facts


def test_an_unknown_split_is_one_line(finished, tmp_path):
    _, path, store, _, _ = finished
    with pytest.raises(HardnegError, match="split"):
        again(path, store, ["stages.start-test.split=tset"])


@pytest.mark.slow
def test_a_stage_does_not_find_the_last_ones_model_in_memory(finished, tmp_path, monkeypatch):
    import weakref

    from hardneg.stages import inputs as searching

    path = finished[1]
    alive, opened = [], []
    load = searching.open_prompted

    def remembering(*arguments):
        alive.append([module() is not None for module in opened])
        encoder = load(*arguments)
        opened.append(weakref.ref(encoder.module))
        return encoder

    monkeypatch.setattr(searching, "open_prompted", remembering)
    execute(make_plan(load_recipe(path)), Store(tmp_path / "store"), Options(device="cpu"), Watcher())
    assert len(alive) > 1 and not any(any(one) for one in alive)


def test_manifests_tell_the_precision_that_auto_was(finished, tmp_path, monkeypatch):
    _, _, _, plan, outcome = finished
    assert not [name for name, made in outcome.artifacts.items() if "choices" in made.facts]
    monkeypatch.setattr("hardneg.encoders.precision.LARGE", 1)
    monkeypatch.setattr("hardneg.encoders.precision.has_bf16_units", lambda _: True)
    made = artifacts_of(plan, tmp_path, until="start-index")
    choices = made["start-index"].facts["choices"]
    assert [subject.split(" ")[0] for subject in choices] == ["inference"]
    assert set(choices.values()) == {"bf16"}
    assert "choices" not in made["dataset"].facts
    assert made["start-index"].key == outcome.artifacts["start-index"].key


def test_the_peak_of_a_block_is_its_own_and_is_told_when_it_ends():
    with usage(1) as large:
        held = np.ones(30_000_000)
        assert not large
    del held
    with usage(2) as small:
        pass
    assert large["peak_memory"] - small["peak_memory"] > 200_000_000
    assert (small["processes"], small["device"]) == (2, "cpu") and "peak_gpu_memory" not in small
