"""Nothing private is pushed: paths and addresses are cut to their last part, and remaining ones stop the push."""

import getpass
import json
import os
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from hardneg.doors.hub.hub_errors import TOKEN
from hardneg.doors.hub.ids import id_texts, local_path_in
from hardneg.doors.hub.upload import HubFile
from hardneg.records.errors import DataError
from hardneg.records.named_plugins import HF, IR_DATASETS, PYSERINI
from hardneg.records.types import HUB_ID

NAMELESS = "folder"
_PATH = re.compile(r"(?<![\w.:/~-])(?:~\w*|[A-Za-z]:)?(?:[/\\][^\s/\\:;,\"'`)\]]+){2,}[/\\]?")
"""An absolute path of two parts or more."""
_RELATIVE = re.compile(r"(?<![\w./\\~-])(?:\.{1,2}/)+[^\s:;,\"'`)\]]+")
_REMOTE = re.compile(r"(?<![\w./-])[\w.-]+@(?:[a-z][\w.-]*|\d+(?:\.\d+){3}):((?:[\w.-]*/|~)[\w./-]*)", re.IGNORECASE)
"""A path on another machine, as scp and rsync write it: `user@host:path`."""
_ADDRESS = re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s\"'`)\]]+")
_CREDENTIALS = re.compile(r"://[^\s/@:]*:[^\s/@]+@")
_KEY = re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b")
_ON_HUB = (HF, IR_DATASETS, PYSERINI)
"""Loaders whose sources are names, not paths, unless a file of that name is here."""
_CHECKED = (".json", ".jsonl", ".yaml", ".md", ".jinja")
_WORDS = ("tokenizer.json", "vocab.json", "terms.txt")
"""Files of vocabulary, in which a path reveals nothing of this machine."""
_MOST = 1 << 26


def without_paths(value: Any) -> Any:
    """The same tree of mappings, lists and values; each path in its texts is cut to its last part."""
    if isinstance(value, str):
        return _cut(value)
    if isinstance(value, Mapping):
        return {_cut(key) if isinstance(key, str) else key: without_paths(item) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [without_paths(item) for item in value]
    return value


def dataset_name(setting: Any) -> Any:
    """The dataset of a recipe, `LOADER:SOURCE` or a mapping; a folder is cut to its name."""
    if isinstance(setting, Mapping):
        loader, named = str(setting.get("name", "")), dict(setting)
        if isinstance(source := named.get("source"), str):
            named["source"] = _source(loader, source)
        return without_paths(named)
    loader, colon, source = str(setting).partition(":")
    return f"{loader}:{_source(loader, source)}" if colon else _cut(loader)


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
    with suppress(ValueError):
        left.append(json.loads(text))
    while left:
        value = left.pop()
        if isinstance(value, str) and _PATH.fullmatch(value):
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


def _source(loader: str, source: str) -> str:
    if loader in _ON_HUB and HUB_ID.fullmatch(source.split("@")[0].replace("/", "-")) and not os.path.exists(source):
        return source
    return _last(source)


def _cut(text: str) -> str:
    if not any(sign in text for sign in "/\\~"):
        return text
    text = _ADDRESS.sub(lambda match: _without_host(match[0]), text)
    head, colon, rest = text.partition(":")
    if colon and head.replace("-", "").isalnum() and len(head) > 1 and _is_path(rest):
        return f"{head}:{_last(rest)}"
    if _is_path(text):
        return _last(text)
    text = _REMOTE.sub(lambda match: _last(match[1]), text)
    for pattern in (_RELATIVE, _PATH):
        text = pattern.sub(lambda match: _last(match[0]), text)
    return text


def _is_path(text: str) -> bool:
    if text.startswith("//"):
        return False
    if text.startswith(("/", "~", "./", "../", "\\\\")) or re.match(r"[A-Za-z]:[/\\]", text):
        return len(text) > 1
    with suppress(OSError, ValueError):
        return "/" in text and " " not in text and (text.count("/") > 1 or os.path.exists(text)) and "://" not in text
    return False


def _without_host(address: str) -> str:
    """An address whose host, user and query are left out: all of them may be private."""
    scheme, _, rest = address.partition("://")
    _, _, path = re.split(r"[?#]", rest)[0].rstrip("/").partition("/")
    return f"{scheme}://.../{_last(path)}" if path else f"{scheme}://..."


def _last(path: str) -> str:
    """The last part of a path, unless it is the name of the user's own folder."""
    name = re.split(r"[/\\]", path.rstrip("/\\"))[-1]
    own = {"", "~", ".", "..", Path.home().name}
    with suppress(OSError, KeyError, ImportError):
        own.add(getpass.getuser())
    return NAMELESS if name in own or name.startswith("~") else name
