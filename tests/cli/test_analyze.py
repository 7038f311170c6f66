from cli.analyze_command import call, printed

from hardneg.store import Store


def test_costs_of_a_run_folder(tmp_path):
    store, out = Store(tmp_path / "store"), tmp_path / "out"
    usage = {"device": "cpu", "peak_memory": 10**9}
    for key, seconds in (("ance", 40.0), ("star", 8.0), ("adore", 2.0)):
        store.workspace(key)
        store.commit(key, "model", {"seconds": seconds, "steps": 3, "usage": usage}, {})
    out.mkdir()
    (out / "recipe.lock.yaml").write_text("keys: {slow: ance, star: star, adore: adore, gone: nokey}")
    both = ["--stage", "ANCE=slow", "--stage", "STAR+ADORE=star,adore", "--store", tmp_path / "store"]
    found = printed("costs", out, *both)
    rows = [(row["method"], row["seconds"], row["speedup"]) for row in found]
    assert rows == [("ANCE", 40, 1), ("STAR+ADORE", 10, 4)]
    assert [row["method"] for row in printed("costs", out, "--store", tmp_path / "store")] == ["slow", "star", "adore"]
    assert "no stage 'sta'; did you mean 'star'" in str(call("costs", out, "--stage", "a=sta", *both[4:]).exception)
    assert "give the folder of a finished recipe" in str(call("costs", tmp_path, *both[4:]).exception)
    assert "NAME=STAGE" in str(call("costs", out, "--stage", "a", *both[4:]).exception)
