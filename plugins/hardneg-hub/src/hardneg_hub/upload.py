"""The files of one push, and checks that none is a pickle, a link out of the folder, or private."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from io import BytesIO
from pathlib import Path
from typing import Any

from hardneg.plugin import errors, stores
from hardneg_hub.cards import LOCK

DOC_IDS, TERMS = "docid", "terms.txt"
CARD = "README.md"
PICKLES = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".joblib")
TOKEN = re.compile(rb"hf_[A-Za-z0-9]{8,}|(?<=[Bb]earer )\S+")
_SCANNED = (".json", ".jsonl", ".yaml", ".md", ".jinja", DOC_IDS)
_VOCABULARIES = ("tokenizer.json", "vocab.json", TERMS)
_ABSOLUTE = re.compile(rb'(?<=")(?:/|[A-Za-z]:\\\\)[^"\s/\\]+[/\\][^"\s]+(?=")')


@dataclass(frozen=True)
class Upload:
    """Files to upload, as paths or bytes, by their path in the repository. upload_type: model, index or negatives.

    notes: notes for the user, such as files that are not uploaded.
    """

    upload_type: str
    files: Mapping[str, Path | bytes]
    notes: tuple[str, ...] = ()

    @property
    def repo_type(self) -> str:
        """The repository's type on the hub: `model`, or `dataset` for an index or negatives."""
        return "model" if self.upload_type == "model" else "dataset"

    @property
    def card(self) -> str:
        """The text of the card, README.md."""
        card = self.files[CARD]
        return (card if isinstance(card, bytes) else card.read_bytes()).decode()

    @property
    def sizes(self) -> dict[str, int]:
        """The size of each file in bytes, by path, the card first."""
        ordered = sorted(self.files.items(), key=lambda item: (item[0] != CARD, item[0]))
        return {path: len(each) if isinstance(each, bytes) else each.stat().st_size for path, each in ordered}

    def check_private(self, private: Iterable[str]) -> None:
        """Scan text files, except vocabularies, for tokens and paths of this machine.

        private: further forbidden texts, such as the user's home folder.

        Raises DataError if a file contains one of them.
        """
        known = "|".join(re.escape(text) for text in private if len(text) > 3)
        pattern = re.compile(rf"(?<![\w.-])(?:{known})(?![\w-])".encode()) if known else TOKEN
        problems = []
        for path, source in self.files.items():
            if path.endswith(_SCANNED) and path.rpartition("/")[2] not in _VOCABULARIES:
                values = [_ABSOLUTE] if path.endswith(".json") else []
                with BytesIO(source) if isinstance(source, bytes) else source.open("rb") as lines:
                    found = (each.search(line) for line in lines for each in (TOKEN, pattern, *values))
                    if match := next(filter(None, found), None):
                        text = "what looks like a token" if TOKEN.fullmatch(match[0]) else match[0].decode()
                        problems.append(f"{path}: contains {text}, which is private to this machine")
        if problems:
            raise errors.DataError(
                "\n".join([*problems, "nothing was pushed; remove the private text, then push again"])
            )


def listed_files(
    folder: Path, artifact: Any, part: str, notes: list[str], changed: Iterable[str] = ()
) -> dict[str, Path]:
    """Return the files in a folder that a manifest lists, verified as unchanged, by name. Others are added to `notes`.

    artifact: contains the folder, at path `part`. changed: names of files that may differ from the manifest.

    Raises:
        ArtifactError: a file is missing or has changed.
        DataError: a file is a pickle or a link out of the folder.
    """
    prefix = "" if part == "." else f"{part}/"
    own = {name.removeprefix(prefix): noted for name, noted in artifact.files.items() if name.startswith(prefix)}
    check_unchanged(folder, {name: "" if name in changed else noted for name, noted in own.items()})
    if pickles := [name for name in own if name.endswith(PICKLES)]:
        raise errors.DataError(f"{folder / pickles[0]}: is a pickle, which may contain code and is not pushed")
    return files_where(folder, own.__contains__, notes)


def check_unchanged(folder: Path, noted: Mapping[str, str]) -> None:
    """Raise ArtifactError for a missing or changed file. noted: digest by file name; empty to allow any content."""
    for name, known in noted.items():
        if not (folder / name).is_file():
            raise errors.ArtifactError(f"{folder / name}: is missing; rerun the recipe")
        if known and stores.file_digest(folder / name) != known:
            raise errors.ArtifactError(f"{folder / name}: has changed since it was written; rerun the recipe")


def files_where(folder: Path, taken: Callable[[str], bool], notes: list[str]) -> dict[str, Path]:
    """Return the files in a folder that `taken` accepts, except the card and pickles. Skipped files go to `notes`.

    Raises DataError for a link out of the folder.
    """
    files, stray = {}, []
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if not (path.is_file() or path.is_symlink()) or name in (stores.MANIFEST, LOCK, CARD):
            continue
        if name.endswith(PICKLES) or not taken(name):
            stray.append(name)
            continue
        files[name] = path.resolve()
        if not files[name].is_file() or not files[name].is_relative_to(folder.resolve()):
            raise errors.DataError(f"{path}: a broken link, or one that leaves {folder}; replace it with the file")
    if stray:
        more = f" and {len(stray) - 5} more" if len(stray) > 5 else ""
        notes.append(f"not uploaded: {', '.join(stray[:5])}{more}")
    return files


def matching(*patterns: str) -> Callable[[str], bool]:
    """Return a function that checks whether a path matches any of the given `fnmatch` patterns."""
    return lambda name: any(fnmatch(name, pattern) for pattern in patterns)
