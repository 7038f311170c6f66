"""Labels kept back: what goes, what stays, and that nothing is lost."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardneg.datasets.held_out import Withheld, WithheldCollection
from hardneg.formats.collection import StoredCollection, write_collection
from hardneg.records.errors import DataError
from hardneg.records.types import Answers, Document, Judgement, Query
from hardneg.runtime.progress import Silent

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


def test_a_share_of_the_queries_loses_all_its_judgements() -> None:
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


def test_a_share_of_the_positives_is_hidden_and_one_stays() -> None:
    kept = WithheldCollection(Whole(), Withheld(positives=0.5))
    hidden = pairs(kept.withheld())
    assert kept.splits() == ["train", "test"] and names(kept, "train") == QUERIES["train"]
    assert 200 < len(hidden) < 340 and all(relevance == 1 for _, _, relevance in hidden)
    left = [item for item in pairs(kept.qrels("train")) if item[2] > 0]
    assert {item[0] for item in left} == set(QUERIES["train"])
    assert not {item for item in hidden if item[0] == "q0"}
    assert pairs(kept.qrels("train")) | hidden == pairs(Whole().qrels("train"))


@given(st.floats(0, 0.99), st.floats(0, 0.99), st.integers(0, 3))
def test_nothing_is_lost_and_a_larger_share_withholds_more(unlabelled: float, positives: float, seed: int) -> None:
    shares = Withheld(unlabelled, positives, seed)
    whole = Whole({"train": QUERIES["train"][:20], "test": ["q3"]})
    kept = WithheldCollection(whole, shares)
    assert pairs(kept.qrels("train")).isdisjoint(pairs(kept.withheld()))
    assert pairs(kept.qrels("train")) | pairs(kept.withheld()) == pairs(whole.qrels("train"))
    more = WithheldCollection(whole, replace(shares, unlabelled=min(0.99, unlabelled + 0.2)))
    assert {query.query_id for query in kept.queries("train")} >= {query.query_id for query in more.queries("train")}


def test_draws_depend_on_ids_alone() -> None:
    turned = Whole({"train": QUERIES["train"][::-1], "test": []})
    one = WithheldCollection(Whole({"train": QUERIES["train"], "test": []}), Withheld(unlabelled=0.3))
    other = WithheldCollection(turned, Withheld(unlabelled=0.3))
    assert set(names(one, "unlabelled")) == set(names(other, "unlabelled"))
    assert names(one, "unlabelled") != names(WithheldCollection(turned, Withheld(unlabelled=0.3, seed=1)), "unlabelled")


def test_answers_are_labels_too(tmp_path: Path) -> None:
    kept = WithheldCollection(Answered(), Withheld(unlabelled=0.5))
    assert [item.query_id for item in kept.answers("train")] == names(kept, "train")
    assert list(kept.answers("unlabelled")) == [] and len(list(kept.answers("test"))) == 2
    assert list(WithheldCollection(Whole(), Withheld(unlabelled=0.5)).answers("train")) == []
    facts = write_collection(kept, tmp_path, Silent())
    assert "with_answers" not in facts["splits"]["unlabelled"]


def test_stored_apart(tmp_path: Path) -> None:
    kept = WithheldCollection(Whole(), Withheld(unlabelled=0.2, positives=0.4))
    facts = write_collection(kept, tmp_path, Silent())
    stored = StoredCollection.open(tmp_path)
    withheld = {(q, d, r) for q, judged in stored.withheld().items() for d, r in judged.items()}
    known = {(q, d, r) for q, judged in stored.all_qrels().items() for d, r in judged.items()}
    assert withheld == pairs(kept.withheld()) and withheld.isdisjoint(known)
    hidden = {pair for pair in withheld if pair[0] in names(kept, "train") and pair[2] > 0}
    assert 0 < len(hidden) < len(withheld)
    assert facts["withheld"] == {"judgements": len(withheld), "hidden": {"train": len(hidden)}}
    assert f"{len(withheld)} judgements are withheld from training" in facts["notes"]
    assert f"{len(hidden)} hidden positives are among them: of queries that keep others" in facts["notes"]
    assert stored.queries("unlabelled").query_ids == names(kept, "unlabelled")
    assert stored.qrels("unlabelled") == {}


def test_where_nothing_is_hidden_of_labelled_queries_it_is_noted(tmp_path: Path) -> None:
    facts = write_collection(WithheldCollection(Whole(), Withheld(unlabelled=0.2)), tmp_path, Silent())
    assert facts["withheld"]["judgements"] > 0 and facts["withheld"]["hidden"] == {}
    assert "0 hidden positives are among them: of queries that keep others" in facts["notes"]


def test_a_collection_that_withholds_nothing_says_so(tmp_path: Path) -> None:
    facts = write_collection(Whole(), tmp_path, Silent())
    assert "withheld" not in facts and StoredCollection.open(tmp_path).withheld() == {}


def test_what_cannot_be_withheld() -> None:
    assert Withheld(unlabelled=1.0).problems() == ["unlabelled must be 0 or above and below 1, not 1"]
    assert Withheld(0.5, -0.1).problems() == ["positives must be 0 or above and below 1, not -0.1"]
    assert Withheld().problems() == ["give unlabelled or positives a share above 0"]
    with pytest.raises(DataError, match="no split train; it has test"):
        WithheldCollection(Whole({"test": ["t1"]}), Withheld(0.5)).splits()
    with pytest.raises(DataError, match="a split unlabelled of its own"):
        WithheldCollection(Whole({"train": [], "unlabelled": []}), Withheld(0.5)).splits()
