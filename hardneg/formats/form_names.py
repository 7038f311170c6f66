"""The names and file suffixes of the forms in which negatives are exported; cheap to import."""

from collections.abc import Mapping
from pathlib import Path

from hardneg.records import UsageError

OWN = "hardneg"
_TABLES, _LINES = (".parquet", ".jsonl"), (".jsonl",)
ENDINGS: Mapping[str, tuple[str, ...]] = {
    "triplet": _TABLES,
    "n-tuple": _TABLES,
    "labeled-list": _TABLES,
    "tevatron-v1": _LINES,
    "tevatron-v2": _LINES,
    "dpr": (".json",),
    "flagembedding": _LINES,
    OWN: (".arrow",),
}
NAMES = tuple(ENDINGS)


def check_form(form: str, path: Path) -> None:
    """Raise UsageError if the form is unknown, or the suffix of the path is not one of the form's suffixes."""
    if form not in ENDINGS:
        raise UsageError(f"unknown form {form!r}; available: {', '.join(NAMES)}")
    if path.suffix not in ENDINGS[form]:
        raise UsageError(f"{path}: the name must end in {' or '.join(ENDINGS[form])} for form {form}")
