from hardneg_papers.analyses.costs import Costs, costs


def test_a_method_is_the_sum_of_its_stages_and_is_compared_with_the_first():
    star = {"seconds": 30.0, "steps": 10, "device": "cuda", "peak_memory": 5, "peak_gpu_memory": 9}
    adore = {"seconds": 10.0, "steps": 20, "device": "cuda", "peak_memory": 6}
    ance = {"seconds": 640.0, "steps": 100, "device": "cuda", "peak_memory": 7}
    found = costs({"ANCE": {"ance": ance}, "STAR+ADORE": {"star": star, "adore": adore}})
    assert [tuple(row[name] for name in ("method", "seconds", "steps", "speedup")) for row in found] == [
        ("ANCE", 640, 100, 1),
        ("STAR+ADORE", 40, 30, 16),
    ]
    assert (found[1]["devices"], found[1]["peak_memory"], found[1]["peak_gpu_memory"]) == (["cuda"], 6, 9)
    assert found[0]["peak_gpu_memory"] is None


def test_a_stage_that_tells_no_time_is_named_and_nothing_is_divided():
    found = costs({"a": {"x": {"seconds": 4.0}}, "b": {"y": {}}, "c": {"z": {"seconds": 0.0}}})
    assert [row["speedup"] for row in found] == [1, None, None]
    assert found[1]["unknown"] == ["y"]


def test_times_are_shown_in_hours_where_one_is_that_long():
    def unit(*seconds):
        return Costs(methods={"a": "x"}).table(costs({str(s): {"x": {"seconds": s}} for s in seconds})).columns[1]

    assert unit(30.0, 7200.0) == "hours" and unit(30.0, 3599.0) == unit() == "minutes"
