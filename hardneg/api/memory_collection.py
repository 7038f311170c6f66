"""Collections that are given as dicts of texts and judgements, checked as they are read."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from hardneg.formats.qrels import GRADE_DIGITS
from hardneg.formats.source_files import order_splits, split_problem
from hardneg.formats.text_lines import one_word
from hardneg.records.errors import DataError
from hardneg.records.types import Document, Judgement, Query
from hardneg.records.wording import suggestion

PARTS = ("corpus", "queries", "qrels")
ONLY = "train"
"""The split of a collection that has none."""
_SHOWN = 10
_LARGEST = 10**GRADE_DIGITS - 1


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
    def of(cls, parts: Mapping[str, Any]) -> "MemoryCollection":
        """What was given, put in order by split.

        Raises:
            DataError: a part is missing, unknown or no mapping, or the splits of two parts differ.
        """
        problems = [f"{name!r}: no such part{suggestion(str(name), PARTS)}" for name in parts if name not in PARTS]
        problems += [f"{name!r} is missing" for name in PARTS if name not in parts]
        problems += [
            f"{name}: must be a dict by id, not {_form(parts[name])}"
            for name in PARTS
            if name in parts and not isinstance(parts[name], Mapping)
        ]
        refuse(problems or [f"{name} is empty" for name in PARTS if not parts[name]])
        refuse(_mixed(parts["qrels"]))
        query, judgements = (next(iter(parts[name].values())) for name in ("queries", "qrels"))
        texts = parts["queries"] if isinstance(query, Mapping) else {"": parts["queries"]}
        judged = parts["qrels"] if _is_by_query(judgements) else {ONLY: parts["qrels"]}
        problems = [problem for split in judged if (problem := split_problem(str(split)))]
        if "" not in texts and set(texts) != set(judged):
            problems.append(
                f"queries have the splits {', '.join(texts)}, qrels {', '.join(judged)}: give both the same"
            )
        refuse(problems)
        return cls(parts["corpus"], texts, judged)

    def documents(self) -> Iterator[Document]:
        """The corpus in the order that it was given in. Raises DataError where something is no text."""
        with Mistakes() as mistakes:
            for doc_id, content in self.corpus.items():
                if document := _document(doc_id, content, mistakes):
                    yield document

    def splits(self) -> Sequence[str]:
        """Those of the judgements."""
        return order_splits(self.judged)

    def all_queries(self) -> Iterator[Query]:
        """The queries as they were given, judged or not. Raises DataError where something is no text."""
        with Mistakes() as mistakes:
            for texts in self.texts.values():
                for query_id, text in texts.items():
                    if not mistakes.takes_id("queries", query_id):
                        continue
                    if not isinstance(text, str):
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
            for query_id, grades in self.judged[split].items():
                path = f"qrels[{split!r}][{query_id!r}]"
                if query_id not in texts:
                    mistakes.add(f"{path}: there is no query {query_id!r:.60} in queries")
                    continue
                if isinstance(text := texts[query_id], str) and not text.strip():
                    mistakes.add(f"queries[{query_id!r}]: has no text")
                for doc_id, grade in graded(path, grades, mistakes):
                    if doc_id not in self.corpus:
                        mistakes.add(f"{path}: there is no document {doc_id!r:.60} in corpus")
                    else:
                        yield Judgement(query_id, doc_id, grade)

    def notes(self) -> Sequence[str]:
        """Nothing is left out."""
        return ()


class Mistakes:
    """Those of one part, told together when it has been read."""

    def __init__(self, where: str = "dataset") -> None:
        self._where = where
        self._problems: list[str] = []

    def add(self, problem: str) -> None:
        """One more."""
        self._problems.append(problem)

    def takes_id(self, path: str, value: Any) -> bool:
        """Whether this may be the id of a query or a document; if not, one more."""
        if isinstance(value, str) and one_word(value):
            return True
        problem = f"id {value!r:.60} must be one word, a text without white space"
        self.add(f"{path}: {problem}" if path else problem)
        return False

    def __enter__(self) -> "Mistakes":
        return self

    def __exit__(self, error_type: type[BaseException] | None, *others: object) -> None:
        if error_type is None:
            refuse(self._problems, self._where)


def refuse(problems: Sequence[str], where: str = "dataset") -> None:
    """Raises DataError where there are problems: a line for each of the first, and how many more there are."""
    if problems:
        more = [f"and {len(problems) - _SHOWN} more"] if len(problems) > _SHOWN else []
        lines = [*problems[:_SHOWN], *more]
        raise DataError("\n".join(f"{where}{'' if line.startswith('[') else ': '}{line}" for line in lines))


def _is_by_query(value: Any) -> bool:
    """Whether this holds the judgements of queries, and not those of documents."""
    judged = next(iter(value.values()), None) if isinstance(value, Mapping) else None
    return isinstance(judged, Iterable) and not isinstance(judged, str) and getattr(judged, "ndim", 1) != 0


def _mixed(qrels: Mapping[str, Any]) -> list[str]:
    """That some judgements are by query within a split, and others by document within a query."""
    named: dict[bool, Any] = {}
    for name, value in qrels.items():
        if not isinstance(value, Mapping) or value:
            named.setdefault(_is_by_query(value), name)
    if len(named) < 2:
        return []
    return [f"qrels: {named[True]!r} is by query, {named[False]!r} is by document: give all by split, or none"]


def _form(value: Any) -> str:
    """What was given in place of a mapping; of a frame, what makes a table of it."""
    type_name = type(value).__name__
    maker = {"pandas": "from_pandas", "polars": "from_polars"}.get(type(value).__module__.partition(".")[0])
    return f"{type_name}; datasets.Dataset.{maker} makes a table of it" if maker else type_name


def _document(doc_id: Any, content: Any, mistakes: Mistakes) -> Document | None:
    title, text = (content.get("title"), content.get("text")) if isinstance(content, Mapping) else (None, content)
    title = "" if title is None else title
    if not mistakes.takes_id("corpus", doc_id):
        return None
    if not isinstance(title, str) or not isinstance(text, str):
        mistakes.add(f"corpus[{doc_id!r}]: must be a text, or a dict with 'text' and 'title', not {content!r:.60}")
    elif misspelt := _misspelt_title(content):
        mistakes.add(f"corpus[{doc_id!r}]: {misspelt!r}: no such part; did you mean 'title'?")
    else:
        return Document(doc_id, text, title)
    return None


def _misspelt_title(content: Any) -> str | None:
    if not isinstance(content, Mapping) or len(content) < 2 or "title" in content:
        return None
    return next((name for name in content if name != "text" and suggestion(str(name), ["title"])), None)


def graded(path: str, judged: Any, mistakes: Mistakes) -> Iterator[tuple[str, int]]:
    """Document ids and grades of one query; those of a list are relevant. What is neither goes to `mistakes`."""
    wanted = f"{path}: must be grades by document id, or a list of document ids, not"
    if isinstance(judged, str) or not isinstance(judged, Iterable):
        mistakes.add(f"{wanted} {judged!r:.60}")
    elif not isinstance(judged, Mapping) and hasattr(judged, "to_dict"):
        mistakes.add(f"{wanted} {type(judged).__name__}; its to_dict() makes grades")
    else:
        pairs = judged.items() if isinstance(judged, Mapping) else ((doc_id, 1) for doc_id in judged)
        good = ((doc_id, grade) for doc_id, grade in pairs if _is_judged(path, doc_id, grade, mistakes))
        yield from {doc_id: int(grade) for doc_id, grade in good}.items()


def _is_judged(path: str, doc_id: Any, grade: Any, mistakes: Mistakes) -> bool:
    if not mistakes.takes_id(path, doc_id):
        return False
    if isinstance(grade, bool) or not isinstance(grade, Integral):
        mistakes.add(f"{path}[{doc_id!r}]: a grade is a whole number, not {grade!r:.60}")
        return False
    if not -_LARGEST <= grade <= _LARGEST:
        mistakes.add(f"{path}[{doc_id!r}]: a grade has at most {GRADE_DIGITS} digits")
        return False
    return True
