"""Nothing private is pushed: paths and addresses are cut to their last part, and remaining ones stop the push."""

import json
import os
import re
import socket
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from hardneg.doors.hub.hub_errors import TOKEN
from hardneg.doors.hub.ids import id_texts, local_path_in
from hardneg.doors.hub.upload import HubFile
from hardneg.recipe.private_paths import PATH
from hardneg.records.errors import DataError

_CREDENTIALS = re.compile(r"://[^\s/@:]*:[^\s/@]+@")
_KEY = re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b")
_CHECKED = (".json", ".jsonl", ".yaml", ".md", ".jinja")
_WORDS = ("tokenizer.json", "vocab.json", "terms.txt")
"""Files of vocabulary, in which a path reveals nothing of this machine."""
_MOST = 1 << 26


def private_texts(folders: Sequence[Path]) -> tuple[str, ...]:
    """The names of this machine and of its user's folders, and secrets: texts that no pushed file may hold.

    folders: those that are pushed from, or that hold the store.
    """
    from huggingface_hub import get_token

    home = str(Path.home())
    paths = [home, *(os.path.abspath(path) for path in [Path.cwd(), *folders])]
    paths += [os.path.realpath(path) for path in paths]
    paths = [path for path in paths if path.count(os.sep) > 1 or path == home]  # `/tmp` tells nothing
    host = socket.gethostname()
    telling = [host] if len(host) > 5 and re.search(r"[-.0-9]", host) else []
    return tuple(dict.fromkeys(text for text in (*paths, *telling, get_token() or "") if len(text) > 3))


def check(files: Sequence[HubFile], private: Sequence[str]) -> None:
    """Read the files, vocabularies apart, and refuse private texts.

    Raises:
        DataError: a file holds a token, credentials, or a path of this machine.
    """
    problems = [f"{file.path}: {problem}" for file in files for problem in _leaks(file, private)]
    if problems:
        raise DataError("\n".join([*problems, "nothing was pushed: take it out of these files, then push again"]))


def _leaks(file: HubFile, private: Sequence[str]) -> Iterator[str]:
    name = file.path.rpartition("/")[2]
    yield from _in_ids(file, private)
    if not name.endswith(_CHECKED) or file.size > _MOST:
        return
    text = file.read().decode("utf-8", "replace")
    if TOKEN.search(text) or _KEY.search(text):
        yield "holds what looks like a token"
    if _CREDENTIALS.search(text):
        yield "holds an address with a password"
    if name not in _WORDS:
        yield from (f"holds {_hidden(secret)}" for secret in private if _holds(text, secret))
        if name.endswith(".json"):
            named = dict.fromkeys(path for path in _path_values(text) if not any(_holds(path, own) for own in private))
            yield from (f"names {path}, a path of this machine alone" for path in named)


def _in_ids(file: HubFile, private: Sequence[str]) -> Iterator[str]:
    """The first mistake in the ids of a file."""
    for text in id_texts(file):
        if path := local_path_in(text):
            yield f"has the id {path}, a path of this machine"
            return
        if TOKEN.search(text):
            yield "holds what looks like a token"
            return
        if secret := next((own for own in private if _holds(text, own)), None):
            yield f"holds {_hidden(secret)}"
            return


def _path_values(text: str) -> Iterator[str]:
    """The values of a JSON file that are absolute paths, such as that of a base model."""
    left: list[Any] = []
    with suppress(ValueError, RecursionError):
        left.append(json.loads(text))
    while left:
        value = left.pop()
        if isinstance(value, str) and PATH.fullmatch(value):
            yield value
        elif isinstance(value, dict | list):
            left += value.values() if isinstance(value, dict) else value


def _holds(text: str, part: str) -> bool:
    """Whether a text is there as a whole: `/root` is not in `/rooted`, and a Windows path is written twice over."""
    return re.search(rf"(?<![\w.-]){re.escape(part)}(?![\w-])", text.replace("\\\\", "\\")) is not None


def _hidden(secret: str) -> str:
    """The description of a private text: a path as it is, so that the user can search for it; a secret hidden."""
    if os.path.isabs(secret):
        return f"the path {secret} of this machine"
    return "the name of this machine" if secret == socket.gethostname() else "the token of the hub"
