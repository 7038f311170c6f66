"""All forms by name, and the endings that their files may have; light to import."""

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
    """Refuses an unknown form, or a file's ending that it does not have.

    Raises UsageError where it is unknown, or the file cannot be of this form.
    """
    if form not in ENDINGS:
        raise UsageError(f"no form is called {form!r}; there are: {', '.join(NAMES)}")
    if path.suffix not in ENDINGS[form]:
        raise UsageError(f"{path}: a file of form {form} ends in {' or '.join(ENDINGS[form])}")
