"""Lists of other queries, and false negatives planted in lists."""

from collections import Counter

import numpy as np

from hardneg.formats.runs import QueryLists
from hardneg.mining.listing import drawn_positives, permuted, planted
from hardneg.records import RankedList


def listed(count: int) -> list[QueryLists]:
    """Query i lists its positive p-i, h-i and n-i, with scores 3, 2, 1."""
    scores = np.array([3, 2, 1], np.float32)
    return [(f"q{i}", {"dense": RankedList([f"p{i}", f"h{i}", f"n{i}"], scores)}) for i in range(count)]


def test_each_query_has_the_list_of_another_without_its_positives() -> None:
    known = {f"q{i}": [f"p{i}"] for i in range(1500)}
    lists = list(permuted(iter(listed(1500)), known, seed=1))
    donors = [hits["dense"].doc_ids[0].removeprefix("h") for _, hits in lists]
    assert [query_id for query_id, _ in lists] == [f"q{i}" for i in range(1500)]
    assert sorted(map(int, donors)) == list(range(1500))
    assert not [1 for row, donor in enumerate(donors) if int(donor) == row]
    assert all(hits["dense"].doc_ids == [f"h{i}", f"n{i}"] for (_, hits), i in zip(lists, donors, strict=True))
    assert lists[0][1]["dense"].scores.tolist() == [2, 1]


def test_the_only_query_has_no_list() -> None:
    ((_, hits),) = permuted(iter(listed(1)), {}, seed=1)
    assert not hits["dense"].doc_ids


def test_a_share_of_the_lists_is_withheld_positives_alone() -> None:
    known = {f"q{i}": [f"p{i}"] for i in range(1000)}
    withheld = {f"q{i}": [f"h{i}", f"x{i}"] for i in range(800)}
    shares = {}
    for share in (0.0, 0.25, 0.5, 1.0):
        lists = {query_id: hits["dense"] for query_id, hits in planted(listed(1000), withheld, known, share, 7)}
        false = {name for name, ranked in lists.items() if ranked.doc_ids == [f"p{name[1:]}", *withheld.get(name, ())]}
        clean = {name for name, ranked in lists.items() if ranked.doc_ids == [f"p{name[1:]}", f"n{name[1:]}"]}
        assert false | clean == withheld.keys()
        assert all(lists[f"q{i}"].doc_ids == [f"p{i}", f"h{i}", f"n{i}"] for i in range(800, 1000))
        assert all(lists[name].scores.tolist() == [3, 2, 1] for name in false)  # x, which is not listed, has the last
        shares[share] = false
    assert len(shares[0.0]) == 0 and len(shares[1.0]) == 800
    assert 150 < len(shares[0.25]) < 250 and 350 < len(shares[0.5]) < 450 and shares[0.25] < shares[0.5]


def test_positives_of_others_are_drawn_evenly_and_not_the_query_s_own() -> None:
    known = {f"q{i}": [f"p{i}"] for i in range(100)} | {"q0": ["p0", "p1"], "elsewhere": ["x"]}
    query_ids = [f"q{i}" for i in range(100)]
    lists = {query_id: hits["positives"] for query_id, hits in drawn_positives(query_ids, known, 10, seed=3)}
    assert list(lists) == query_ids
    assert all(len(set(ranked.doc_ids)) == 10 for ranked in lists.values())
    assert all(not set(known[name]) & set(ranked.doc_ids) for name, ranked in lists.items())
    assert all(np.isnan(ranked.scores).all() for ranked in lists.values())
    counts = Counter(doc_id for ranked in lists.values() for doc_id in ranked.doc_ids)
    assert counts.keys() == {f"p{i}" for i in range(100)} and max(counts.values()) < 25  # 10 each, deviation 3


def test_all_positives_of_others_where_there_are_fewer() -> None:
    lists = dict(drawn_positives(["a", "b", "c"], {"a": ["1"], "b": ["2"], "c": ["3"]}, 10, seed=3))
    assert sorted(lists["a"]["positives"].doc_ids) == ["2", "3"]
