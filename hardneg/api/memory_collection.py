"""Collections that are given as dicts of texts and judgements, checked as they are read."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from hardneg.data.source_files import order_splits, split_problem
from hardneg.data.text_lines import one_word
from hardneg.errors import DataError
from hardneg.registry import suggestion
from hardneg.types import Document, Judgement, Query

PARTS = ("corpus", "queries", "qrels")
ONLY = "train"
"""The split of a collection that has none."""
_TOLD = 10


@dataclass(frozen=True)
class MemoryCollection:
    """A corpus by document id, queries and judgements by split: `{"corpus": ..., "queries": ..., "qrels": ...}`.

    corpus: a text, or `title` and `text`, by document id. texts: of queries by id, by split, or under `ONLY` where
    splits share them. judged: by split, the grades by document id, or a list of the relevant ones, by query id.
    """

    corpus: Mapping[str, Any]
    texts: Mapping[str, Mapping[str, Any]]
    judged: Mapping[str, Mapping[str, Any]]

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> "MemoryCollection":
        """What was given, put in order by split.

        Raises:
            DataError: a part is missing, unknown or no mapping, or the splits of two parts differ.
        """
        problems = [f"{name!r}: no such part{suggestion(str(name), PARTS)}" for name in given if name not in PARTS]
        problems += [f"{name!r} is missing" for name in PARTS if name not in given]
        problems += [
            f"{name}: must be a dict by id, not {type(given[name]).__name__}"
            for name in PARTS
            if name in given and not isinstance(given[name], Mapping)
        ]
        refuse(problems or [f"{name} is empty" for name in PARTS if not given[name]])
        texts = given["queries"] if _by_split(given["queries"], Mapping) else {"": given["queries"]}
        judged = given["qrels"] if _graded_by_split(given["qrels"]) else {ONLY: given["qrels"]}
        problems = [told for split in judged if (told := split_problem(str(split)))]
        if "" not in texts and set(texts) != set(judged):
            problems.append(
                f"queries have the splits {', '.join(texts)}, qrels {', '.join(judged)}: give both the same"
            )
        refuse(problems)
        return cls(given["corpus"], texts, judged)

    def documents(self) -> Iterator[Document]:
        """The corpus in the order that it was given in. Raises DataError where something is no text."""
        with Mistakes() as mistakes:
            for doc_id, found in self.corpus.items():
                if made := _document(doc_id, found, mistakes):
                    yield made

    def splits(self) -> Sequence[str]:
        """Those of the judgements."""
        return order_splits(self.judged)

    def all_queries(self) -> Iterator[Query]:
        """The queries as they were given, judged or not. Raises DataError where something is no text."""
        with Mistakes() as mistakes:
            for texts in self.texts.values():
                for query_id, text in texts.items():
                    if not isinstance(query_id, str) or not one_word(query_id):
                        mistakes.add(f"queries: id {query_id!r:.60} must be one word, a text without white space")
                    elif not isinstance(text, str):
                        mistakes.add(f"queries[{query_id!r}]: must be a text, not {text!r:.60}")
                    else:
                        yield Query(query_id, text)

    def queries(self, split: str) -> Iterator[Query]:
        """The queries of a split that its judgements name."""
        texts, named = self.texts.get(split, self.texts.get("", {})), self.judged[split]
        return (Query(query_id, text) for query_id, text in texts.items() if query_id in named)

    def qrels(self, split: str) -> Iterator[Judgement]:
        """The judgements of a split. Raises DataError where one is no whole number, or is about an unknown text."""
        texts = self.texts.get(split, self.texts.get("", {}))
        with Mistakes() as mistakes:
            for query_id, found in self.judged[split].items():
                place = f"qrels[{split!r}][{query_id!r}]"
                if query_id not in texts:
                    mistakes.add(f"{place}: there is no query {query_id!r:.60} in queries")
                    continue
                for doc_id, grade in graded(place, found, mistakes):
                    if doc_id not in self.corpus:
                        mistakes.add(f"{place}: there is no document {doc_id!r:.60} in corpus")
                    elif isinstance(grade, bool) or not isinstance(grade, Integral):
                        mistakes.add(f"{place}[{doc_id!r}]: a grade is a whole number, not {grade!r:.60}")
                    else:
                        yield Judgement(query_id, doc_id, int(grade))

    def notes(self) -> Sequence[str]:
        """Nothing is left out."""
        return ()


class Mistakes:
    """Those of one part, told together when it has been read."""

    def __init__(self, where: str = "dataset") -> None:
        self._where = where
        self._found: list[str] = []

    def add(self, problem: str) -> None:
        """One more."""
        self._found.append(problem)

    def __enter__(self) -> "Mistakes":
        return self

    def __exit__(self, kind: type[BaseException] | None, *others: object) -> None:
        if kind is None:
            refuse(self._found, self._where)


def refuse(problems: Sequence[str], where: str = "dataset") -> None:
    """Raises DataError where there are problems: a line for each of the first, and how many more there are."""
    if problems:
        more = [f"and {len(problems) - _TOLD} more"] if len(problems) > _TOLD else []
        raise DataError("\n".join(f"{where}: {line}" for line in [*problems[:_TOLD], *more]))


def _by_split(given: Mapping[str, Any], kind: type) -> bool:
    return isinstance(next(iter(given.values())), kind)


def _graded_by_split(given: Mapping[str, Any]) -> bool:
    """Whether the first value holds the judgements of queries, and not those of documents."""
    first = next(iter(given.values()))
    judged = next(iter(first.values()), None) if isinstance(first, Mapping) else None
    return isinstance(judged, Iterable) and not isinstance(judged, str)


def _document(doc_id: Any, found: Any, mistakes: Mistakes) -> Document | None:
    title, text = (found.get("title", ""), found.get("text")) if isinstance(found, Mapping) else ("", found)
    if not isinstance(doc_id, str) or not one_word(doc_id):
        mistakes.add(f"corpus: id {doc_id!r:.60} must be one word, a text without white space")
    elif not isinstance(title, str) or not isinstance(text, str):
        mistakes.add(f"corpus[{doc_id!r}]: must be a text, or a dict with 'text' and 'title', not {found!r:.60}")
    else:
        return Document(doc_id, text, title)
    return None


def graded(place: str, found: Any, mistakes: Mistakes) -> Iterator[tuple[Any, Any]]:
    """Document ids and grades of one query; those of a list are relevant."""
    if isinstance(found, Mapping):
        yield from found.items()
    elif isinstance(found, str) or not isinstance(found, Iterable):
        mistakes.add(f"{place}: must be grades by document id, or a list of document ids, not {found!r:.60}")
    elif odd := [each for each in found if not isinstance(each, str)]:
        mistakes.add(f"{place}: a document id is a text, not {odd[0]!r:.60}")
    else:
        yield from dict.fromkeys(found, 1).items()
