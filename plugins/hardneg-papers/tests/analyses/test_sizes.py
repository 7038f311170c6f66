from hardneg_papers.analyses.indexes import index_vectors, sizes


def test_bytes_a_vector_and_the_ratio_to_the_first_index():
    found = sizes({"flat": (1_600, 10), "pq": (160, 10), "empty": (5, 0)})
    assert [(size["bytes_per_vector"], size["ratio"]) for size in found[:2]] == [(160, 1), (16, 0.1)]
    assert found[2]["bytes_per_vector"] == 5


def test_no_indexes_have_no_sizes():
    assert sizes({}) == []


def test_vectors_are_counted_by_their_ids_with_or_without_a_last_line_end(tmp_path):
    assert index_vectors(tmp_path) is None
    for text, count in {"": 0, "d1\nd2\n": 2, "D1#0\nD1#1\nD2#0": 3}.items():
        (tmp_path / "docid").write_text(text)
        assert index_vectors(tmp_path) == count
