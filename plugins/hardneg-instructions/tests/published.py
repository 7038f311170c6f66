"""Tiny files with the columns of the published data."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

TOPICS = (
    "river", "engine", "violin", "tensor", "garden", "planet", "bridge", "copper", "falcon", "harbor", "island",
    "jungle", "kettle", "ladder", "magnet", "needle", "orange", "pepper", "quartz", "rocket",
)  # fmt: skip
PLACES = ("Norway", "Chile")


def json_lines(path: Path, rows: Iterable[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def parquet(path: Path, rows: list[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path)


def passage(doc_id: str, text: str, explanation: str | None = None) -> dict[str, Any]:
    return {"docid": doc_id, "title": "", "text": text, "explanation": explanation, "joint_id": None}


def promptriever_rows() -> list[dict[str, Any]]:
    """Each topic without an instruction, and with one for each place; passages of the other place are ruled out."""
    rows = []
    for number, topic in enumerate(TOPICS):
        of = {place: passage(f"{number}{place[0]}", f"the {topic} in {place} was seen again") for place in PLACES}
        mined = [passage(f"m{number}", f"a {topic} is not a thing to eat")]
        common = {"only_query": f"which {topic}", "negative_passages": mined}
        plain = {"query_id": str(number), "query": f"which {topic}", "only_instruction": "", "has_instruction": False}
        rows.append({**plain, **common, "positive_passages": list(of.values()), "new_negatives": []})
        instruction = "A relevant document names Norway."
        ruled_out = [of["Chile"], passage("g", f"written: {topic} of Peru", "names Peru, not Norway")]
        named = {"query_id": str(number), "query": f"which {topic} {instruction}", "only_instruction": instruction}
        rows.append({**named, "has_instruction": True, **common, "positive_passages": [of["Norway"]]})
        rows[-1]["new_negatives"] = ruled_out
    return json.loads(json.dumps(rows))  # type: ignore[no-any-return]


def followir(folder: Path) -> Path:
    """The form of jhu-clsp: two queries; d1 and d3 are not relevant any more where the instruction changed."""
    corpus = [{"_id": f"d{i}", "title": "", "text": f"{TOPICS[i]} of {PLACES[i % 2]}"} for i in range(6)]
    queries = [
        {"_id": "310", "text": "which river", "instruction_og": "Any river.", "instruction_changed": "Only of Norway."},
        {"_id": "311", "text": "which violin", "instruction_og": "Any.", "instruction_changed": "None of Chile."},
    ]
    judged = {"og": {"310": "d0 d1", "311": "d2 d3"}, "changed": {"310": "d0", "311": "d2"}}
    json_lines(folder / "corpus.jsonl", corpus)
    json_lines(folder / "queries.jsonl", queries)
    for form, relevant in judged.items():
        rows = [
            {"query-id": query, "corpus-id": doc_id, "score": float(doc_id in relevant[query].split())}
            for query in relevant
            for doc_id in (row["_id"] for row in corpus)
        ]
        json_lines(folder / f"qrels_{form}" / "test.jsonl", rows)
    return folder


def followir_of_mteb(folder: Path) -> Path:
    """The same collection in mteb's form."""
    plain = followir(folder / "plain")
    read = {path.stem: [json.loads(line) for line in path.open()] for path in plain.glob("*.jsonl")}
    ends = {"og": "-og", "changed": "-changed"}
    queries, instructions, qrels = [], [], []
    for form, end in ends.items():
        for row in read["queries"]:
            queries.append({"_id": row["_id"] + end, "text": row["text"]})
            instructions.append({"query-id": row["_id"] + end, "instruction": row[f"instruction_{form}"]})
        for line in (plain / f"qrels_{form}" / "test.jsonl").open():
            qrels.append({**(row := json.loads(line)), "query-id": row["query-id"] + end})
    target = folder / "mteb"
    parquet(target / "corpus" / "corpus-00000-of-00001.parquet", read["corpus"])
    parquet(target / "queries" / "queries-00000-of-00001.parquet", queries)
    parquet(target / "instruction" / "instruction-00000-of-00001.parquet", instructions)
    parquet(target / "data" / "default-00000-of-00001.parquet", qrels)
    return target


def bright(folder: Path) -> Path:
    """Two domains; the second query of biology excludes two documents, one of them with a blank in its id."""
    documents = [{"id": f"{name}.txt", "content": f"all about {name}"} for name in ("moss", "fern", "old oak")]
    first = {"id": "0", "query": "why is moss green", "gold_ids": ["moss.txt"], "excluded_ids": ["N/A"]}
    second = {
        "id": "1",
        "query": "how old is it",
        "gold_ids": ["fern.txt"],
        "excluded_ids": ["moss.txt", "old oak.txt"],
    }
    rows = [{**row, "reasoning": "N/A", "gold_ids_long": [], "gold_answer": ""} for row in (first, second)]
    for domain, some in (("biology", rows), ("pony", rows[:1])):
        parquet(folder / "documents" / f"{domain}-00000-of-00001.parquet", documents)
        parquet(folder / "examples" / f"{domain}-00000-of-00001.parquet", some)
    return folder
