import json

from cli.analyze_command import call, printed

from hardneg.store.artifacts import Store


def write(path, records):
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_gradients_of_histories(tmp_path):
    norms = [{"step": i, "loss": 1.0, "gradient_norms": {"bottom": 0.5 * i, "top": 2.0}} for i in (1, 2, 3)]
    path = write(tmp_path / "a" / "history.jsonl", norms)
    found = printed("gradients", path, "--plot", tmp_path / "g.png")["history.jsonl"]
    assert (found["bottom"]["mean"], found["bottom"]["largest"], found["top"]["mean"]) == (1.0, 1.5, 2.0)
    assert (tmp_path / "g.png").stat().st_size > 1000
    assert "bottom" in call("gradients", path).stdout
    other = write(tmp_path / "b" / "history.jsonl", [{"step": 1, "loss": 2.0}])
    assert "holds no `gradient_norms`" in str(call("gradients", path, other).exception)


def test_refreshes_of_histories(tmp_path):
    records = [{"step": i, "loss": 4.0 / i, "refresh": i // 2, "lag": i % 2} for i in (1, 2, 3, 4)]
    path = write(tmp_path / "a" / "history.jsonl", [*records, {"step": 4, "dev": {"mrr@10": 0.25}}])
    found = printed("refreshes", path, "--plot", tmp_path / "r.png")["history.jsonl"]
    assert found["refreshes"] == [[2, 1], [4, 2]] and found["lag"] == {"mean": 0.5, "largest": 1}
    assert "best mrr@10" in call("refreshes", path).stdout
    other = write(tmp_path / "b" / "history.jsonl", [{"step": 1, "dev": {}}])
    assert "holds no `loss`" in str(call("refreshes", other).exception)


def test_operations_of_a_run_folder(tmp_path):
    store, out = Store(tmp_path / "store"), tmp_path / "out"
    made = {"encoded": ("index", {"passages": 10, "seconds": 2.0}), "trained": ("model", {"steps": 4, "seconds": 2.0})}
    for key, (kind, facts) in {**made, "page": ("report", {"seconds": 1.0})}.items():
        store.workspace(key)
        store.commit(key, kind, facts, {})
    out.mkdir()
    (out / "recipe.lock.yaml").write_text("keys: {vectors: encoded, star: trained, report: page}")
    asked = ["operations", out, "--store", tmp_path / "store"]
    found = printed(*asked, "--plot", tmp_path / "o.png")
    assert [(row["operation"], row["milliseconds"]) for row in found] == [("vectors", 200.0), ("star", 500.0)]
    assert "200 ms a document" in call(*asked, "--stage", "vectors").stdout
    assert "no stage 'stars'; did you mean 'star'" in str(call(*asked, "--stage", "stars").exception)
