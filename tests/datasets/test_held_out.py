"""Labels kept back: what goes, what stays, and that nothing is lost."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from hardneg.datasets.held_out import Withheld, WithheldCollection
from hardneg.formats.collection import StoredCollection, write_collection
from hardneg.formats.qrels import Exclusion
from hardneg.records import Answers, DataError, Document, Judgement, Membership, Query, Side
from hardneg.runtime import Silent
from hardneg.store import options_in_key

QUERIES = {"train": [f"q{i}" for i in range(200)], "test": ["q0", "t1"]}


@dataclass
class Whole:
    """200 training queries with three positives and one document judged not relevant each; q0 is in test too."""

    asked: dict[str, list[str]] = field(default_factory=lambda: dict(QUERIES))

    def documents(self) -> Iterator[Document]:
        return (Document(f"d{i}", f"text {i}") for i in range(210))

    def splits(self) -> Sequence[str]:
        return list(self.asked)

    def queries(self, split: str) -> Iterator[Query]:
        return (Query(name, f"what is {name}") for name in self.asked[split])

    def qrels(self, split: str) -> Iterator[Judgement]:
        for row, name in enumerate(self.asked[split]):
            yield from (Judgement(name, f"d{row + i}", int(i < 3)) for i in range(4))

    def notes(self) -> Sequence[str]:
        return ["noted"]


@dataclass
class Answered(Whole):
    def answers(self, split: str) -> Iterator[Answers]:
        return (Answers(name, ("yes",)) for name in self.asked[split])


def pairs(judgements: Iterator[Judgement]) -> set[tuple[str, str, int]]:
    return {tuple(judgement) for judgement in judgements}


def names(kept: WithheldCollection, split: str) -> list[str]:
    return [query.query_id for query in kept.queries(split)]


def test_a_share_of_the_queries_loses_all_its_judgements():
    kept = WithheldCollection(Whole(), Withheld(unlabelled=0.25))
    moved = names(kept, "unlabelled")
    assert kept.splits() == ["train", "test", "unlabelled"]
    assert 30 < len(moved) < 70 and "q0" not in moved
    assert [name for name in QUERIES["train"] if name not in moved] == names(kept, "train")
    assert not pairs(kept.qrels("unlabelled"))
    assert pairs(kept.withheld()) == {item for item in pairs(Whole().qrels("train")) if item[0] in moved}
    assert pairs(kept.qrels("train")) | pairs(kept.withheld()) == pairs(Whole().qrels("train"))
    assert pairs(kept.qrels("test")) == pairs(Whole().qrels("test"))
    assert kept.notes() == ["noted"]


def test_a_share_of_the_positives_is_hidden_and_one_stays():
    kept = WithheldCollection(Whole(), Withheld(positives=0.5))
    hidden = pairs(kept.withheld())
    assert kept.splits() == ["train", "test"] and names(kept, "train") == QUERIES["train"]
    assert 200 < len(hidden) < 340 and all(relevance == 1 for _, _, relevance in hidden)
    left = [item for item in pairs(kept.qrels("train")) if item[2] > 0]
    assert {item[0] for item in left} == set(QUERIES["train"])
    assert not {item for item in hidden if item[0] == "q0"}
    assert pairs(kept.qrels("train")) | hidden == pairs(Whole().qrels("train"))


@given(st.floats(0, 0.99), st.floats(0, 0.99), st.integers(0, 3))
def test_nothing_is_lost_and_a_larger_share_withholds_more(unlabelled, positives, seed):
    shares = Withheld(unlabelled, positives, seed)
    whole = Whole({"train": QUERIES["train"][:20], "test": ["q3"]})
    kept = WithheldCollection(whole, shares)
    assert pairs(kept.qrels("train")).isdisjoint(pairs(kept.withheld()))
    assert pairs(kept.qrels("train")) | pairs(kept.withheld()) == pairs(whole.qrels("train"))
    more = WithheldCollection(whole, replace(shares, unlabelled=min(0.99, unlabelled + 0.2)))
    assert {query.query_id for query in kept.queries("train")} >= {query.query_id for query in more.queries("train")}


def test_answers_are_labels_too(tmp_path):
    kept = WithheldCollection(Answered(), Withheld(unlabelled=0.5))
    assert [item.query_id for item in kept.answers("train")] == names(kept, "train")
    assert list(kept.answers("unlabelled")) == [] and len(list(kept.answers("test"))) == 2
    assert list(WithheldCollection(Whole(), Withheld(unlabelled=0.5)).answers("train")) == []
    facts = write_collection(kept, tmp_path, Silent())
    assert "with_answers" not in facts["splits"]["unlabelled"]


def test_stored_apart(tmp_path):
    kept = WithheldCollection(Whole(), Withheld(unlabelled=0.2, positives=0.4))
    facts = write_collection(kept, tmp_path, Silent())
    stored = StoredCollection.open(tmp_path)
    withheld = {(q, d, r) for q, judged in stored.withheld().items() for d, r in judged.items()}
    known = {(q, d, r) for q, judged in stored.all_qrels().items() for d, r in judged.items()}
    assert withheld == pairs(kept.withheld()) and withheld.isdisjoint(known)
    hidden = {pair for pair in withheld if pair[0] in names(kept, "train") and pair[2] > 0}
    assert 0 < len(hidden) < len(withheld)
    assert facts["withheld"] == {"judgements": len(withheld), "hidden": {"train": len(hidden)}}
    assert f"withheld from training: {len(withheld)} judgements" in facts["notes"]
    assert f"withheld from queries with other positives: {len(hidden)} positives" in facts["notes"]
    assert stored.queries("unlabelled").query_ids == names(kept, "unlabelled")
    assert stored.qrels("unlabelled") == {}


def test_what_cannot_be_withheld():
    assert Withheld(unlabelled=1.0).problems() == ["unlabelled must be at least 0 and below 1, not 1"]
    assert Withheld(0.5, -0.1).problems() == ["positives must be at least 0 and below 1, not -0.1"]
    assert Withheld().problems() == ["set unlabelled, positives or groups above 0, or set siblings or halves"]
    with pytest.raises(DataError, match="no split train; available: test"):
        WithheldCollection(Whole({"test": ["t1"]}), Withheld(0.5)).splits()
    with pytest.raises(DataError, match="already has a split unlabelled"):
        WithheldCollection(Whole({"train": [], "unlabelled": []}), Withheld(0.5)).splits()


@dataclass
class Grouped(Whole):
    """Ten training and two test queries of one positive each, d0 to d11, of six groups that all have siblings."""

    asked: dict[str, list[str]] = field(
        default_factory=lambda: {"train": [f"q{i}" for i in range(10)], "test": ["q10", "q11"]}
    )

    def documents(self) -> Iterator[Document]:
        return (Document(f"d{i}", f"one two d{i} four") for i in range(24))

    def qrels(self, split: str) -> Iterator[Judgement]:
        return (Judgement(name, f"d{name[1:]}", 1) for name in self.asked[split])

    def groups(self, side: Side) -> Iterator[Membership]:
        """Two positives each; groups 0 and 1 have four documents more, group 2 two; d22 and d23 are of none."""
        members = {"document": 22, "query": 0}[side]
        return (Membership(f"d{i}", f"g{i // 2 if i < 12 else (i - 12) // 2 % 3}") for i in range(members))


def ids(kept: WithheldCollection) -> list[str]:
    return [document.doc_id for document in kept.documents()]


def test_siblings_differ_and_the_rest_is_the_same():
    parts = [Withheld(siblings=count).of(Grouped()) for count in (0, 1, 2, 99)]
    for split, count in {"train": 5, "test": 1}.items():
        assert len(names(parts[0], split)) == count  # of six groups, each with two queries
        assert all(names(part, split) == names(parts[0], split) for part in parts)
        assert all(pairs(part.qrels(split)) == pairs(parts[0].qrels(split)) for part in parts)
    assert [len(ids(part)) for part in parts] == [8, 8 + 6, 8 + 6 + 3, 24]
    assert all({*ids(one)} < {*ids(more)} for one, more in pairwise(parts))
    assert parts[0].notes() == ["noted", "withheld by group: 16 documents and 6 queries"]


def test_groups_go_with_their_documents_and_training_queries():
    whole, part = Grouped(), Withheld(groups=0.6).of(Grouped())
    group_of = {member.member_id: member.group for member in whole.groups("document")}
    gone = {document.doc_id for document in whole.documents()}.difference(ids(part))
    assert gone and "g5" not in {group_of[doc_id] for doc_id in gone}  # g5 has the test queries' positives
    assert {doc_id for doc_id in group_of if group_of[doc_id] in {group_of[each] for each in gone}} == gone
    assert names(part, "train") == [f"q{i}" for i in range(10) if f"d{i}" not in gone]
    assert names(part, "test") == ["q10", "q11"]


def test_siblings_need_groups():
    with pytest.raises(DataError, match="siblings and groups need groups"):
        Withheld(siblings=1).of(Whole())


def test_halves_are_documents_that_nobody_has_labelled():
    kept = Withheld(halves=True).of(Grouped())
    texts = {document.doc_id: document.text for document in kept.documents()}
    assert texts.keys() - {f"d{i}" for i in range(24)} == {f"d{i}~half" for i in range(10)}
    assert all(texts[f"d{i}~half"] in ("one two", f"d{i} four") for i in range(10))
    assert pairs(kept.withheld()) == {(f"q{i}", f"d{i}~half", 1) for i in range(10)}
    assert pairs(kept.qrels("train")) == pairs(Grouped().qrels("train"))


def test_keys_of_recipes_without_them_stay():
    assert options_in_key(Withheld(unlabelled=0.5)) == {"unlabelled": 0.5, "positives": 0.0, "seed": 42}
    assert options_in_key(Withheld(siblings=0))["siblings"] == 0


class ExcludingOne(Whole):
    def excluded(self) -> Iterator[Exclusion]:
        yield Exclusion("q1", "d9")


def test_what_is_excluded_stays_so(tmp_path):
    for number, whole in enumerate((ExcludingOne(), Whole())):
        write_collection(WithheldCollection(whole, Withheld(positives=0.5)), tmp_path / str(number), Silent())
    assert [StoredCollection.open(tmp_path / name).excluded() for name in ("0", "1")] == [{"q1": ["d9"]}, {}]


def test_about_how_much_stays_without_reading():
    medquad = {"train": 11_477, "dev": 1_136, "test": 1_732}
    documents, splits = Withheld(groups=0.5).left_of(15_792, medquad)
    assert splits == medquad | {"train": round(11_477 / 2)}
    assert documents == pytest.approx(9_427, rel=0.01)  # as many as there are, once it is read
    documents, splits = Withheld(groups=0.875, unlabelled=0.5).left_of(15_792, medquad)
    assert splits == medquad | {"train": 718, "unlabelled": 717} and documents == pytest.approx(4_748, rel=0.01)
    assert Withheld(halves=True).left_of(10, {"train": 4}) == (10, {"train": 4})
