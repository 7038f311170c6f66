"""What runs are called, and which of them others are compared with."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from hardneg.records.errors import UsageError

METRICS = ("ndcg@10", "mrr@10", "recall@100")


def run_labels(paths: Sequence[Path]) -> dict[Path, str]:
    """A name for each run: its file's name, with as many folders before it as tell equal ones apart."""
    if len(set(paths)) < len(paths):
        twice = next(path for path in paths if paths.count(path) > 1)
        raise UsageError(f"{twice} is given twice; give each run once")
    return {path: _shortest_tail(path, [p for p in paths if p.name == path.name]) for path in paths}


def _shortest_tail(path: Path, namesakes: Sequence[Path]) -> str:
    for length in range(1, len(path.parts) + 1):
        tail = path.parts[-length:]
        if sum(other.parts[-length:] == tail for other in namesakes) == 1:
            return Path(*tail).as_posix()
    return path.as_posix()


def known_baselines(names: Iterable[str], labels: Sequence[str]) -> list[str]:
    """The labels of the runs to compare with. Raises UsageError where one is not among the runs."""
    baselines = list(names)
    for name in baselines:
        if name not in labels:
            raise UsageError(f"baseline {name} is not among the runs: {', '.join(labels)}")
    return baselines


def known_metrics(names: Sequence[str]) -> list[str]:
    """These metrics, each once; the usual ones where there is none. Raises UsageError where one is unknown."""
    from hardneg.evaluation.metrics import answer_cutoffs, parse_metrics

    if judged := [name for name in names or METRICS if name not in answer_cutoffs(names)]:
        parse_metrics(judged)
    return list(dict.fromkeys(names or METRICS))
