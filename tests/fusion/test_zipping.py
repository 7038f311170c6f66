"""Lists by turns."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hardneg.fusion.zipping import zipped
from hardneg.types import RankedList


def listed(doc_ids):
    return RankedList(list(doc_ids), np.arange(len(doc_ids), 0, -1, np.float32))


def ids(length, *lists):
    return "".join(zipped([listed(each) for each in lists], length).doc_ids)


def test_turns_by_hand():
    assert ids(5, "1234", "3516") == "13254"
    assert ids(10, "12", "31456") == "132456"
    assert ids(10, "abcd", "ecfa") == "aebcfd"
    assert ids(3, "abcd", "ecfa") == "aeb"
    assert ids(9, "", "ab") == "ab" and ids(9, "", "") == ""
    assert ids(9, "ab", "cd", "ef") == "acebdf"


def test_scores_are_of_the_ranks_alone():
    found = zipped([listed("12"), listed("3")], 10).scores
    assert found.dtype == np.float32 and found.tolist() == [1.0, 0.5, np.float32(1 / 3)]
    assert (np.diff(zipped([listed([f"d{i}" for i in range(5000)]), listed("")], 5000).scores) < 0).all()


LISTS = st.lists(st.lists(st.sampled_from("abcdefgh"), unique=True), min_size=1, max_size=4)


def naive(lists, length):
    found = []
    for place in range(max(map(len, lists))):
        for each in lists:
            if place < len(each) and each[place] not in found and len(found) < length:
                found.append(each[place])
    return found


@given(LISTS, st.integers(1, 10))
def test_it_does_what_one_would_do_by_hand(lists, length):
    assert zipped([listed(each) for each in lists], length).doc_ids == naive(lists, length)


def test_published_runs(test_data):
    from hardneg.data.runs import read_run

    folder = test_data / "msmarco-dl1920" / "runs"
    dense, sparse = (read_run(folder / f"{name}.dl20.trec.gz") for name in ("d_bert_kd_tasb", "bm25"))
    assert dense.keys() == sparse.keys() and len(dense) == 54
    for query_id, ranked in dense.items():
        first, second = ranked.doc_ids, sparse[query_id].doc_ids
        assert zipped([listed(first), listed(second)], 100).doc_ids == naive([first, second], 100)
