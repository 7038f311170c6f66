"""The section of a report on what was judged."""

from collections.abc import Mapping

from hardneg.plugin import ArtifactInput, Section, Table
from hardneg_judge.session import KEPT, READ, REQUESTS, UNREADABLE, WRITTEN

_COUNTED = ("pairs", "flagged", "relevant", "queries dropped", "negatives", "made positives")
_HIDDEN = ("hidden positives", "hidden positives found")
_TAKEN = (REQUESTS, KEPT, READ, WRITTEN, UNREADABLE)
_EXPLAINED = (
    "Pairs of a query and a mined negative; those that are flagged go to the second judge. Hidden positives are those "
    "that the dataset withholds, as far as they were mined as negatives."
)
_REQUESTS = (
    "What the answers came to that were used, whenever they were asked for; those from before were on this machine. "
    "Tokens are as the server counts them, the cost is by the recipe's prices."
)


def judging_section(sources: Mapping[str, ArtifactInput]) -> Section:
    """What was found, a row an artifact; what servers were asked, a row a judge."""
    named = [*_COUNTED, *(_HIDDEN if any(_HIDDEN[0] in source.facts for source in sources.values()) else ())]
    rows = [[label, *(_shown(source, name) for name in named)] for label, source in sources.items()]
    requests = [
        [label, judge, *(_shown(source, f"{judge}: {name}") for name in _TAKEN), _cost(source, judge)]
        for label, source in sources.items()
        for judge in ("flag", "decide")
        if f"{judge}: {REQUESTS}" in source.facts
    ]
    tables = [Table(("judged", *named), rows)]
    tables += [Table(("judged", "judge", *_TAKEN, "cost"), requests, words=2)] if requests else []
    return Section("Judged negatives", tables, f"{_EXPLAINED} {_REQUESTS}" if requests else _EXPLAINED)


def _shown(source: ArtifactInput, name: str) -> str:
    count = source.facts.get(name, "–" if name == "flagged" else 0)
    return f"{count:,}" if isinstance(count, int) else str(count)


def _cost(source: ArtifactInput, judge: str) -> str:
    cost = source.facts.get(f"{judge}: cost", 0.0)
    return f"{cost:,.2f}" if isinstance(cost, float) and cost >= 0.01 else f"{cost:.2g}"
