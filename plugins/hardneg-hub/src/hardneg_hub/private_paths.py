"""Cut paths and addresses in published content to their last part, because they may be private."""

import getpass
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
_PATH = re.compile(r"(?<![\w.:/~-])(?:~\w*|[A-Za-z]:)?(?:[/\\][^\s/\\:;,\"'`)\]]+){2,}[/\\]?")
"""An absolute path of two parts or more."""
_RELATIVE = re.compile(r"(?<![\w./\\~-])(?:\.{1,2}/)+[^\s:;,\"'`)\]]+")
_REMOTE = re.compile(r"(?<![\w./-])[\w.-]+@(?:[a-z][\w.-]*|\d+(?:\.\d+){3}):((?:[\w.-]*/|~)[\w./-]*)", re.IGNORECASE)
"""A path on another machine, as scp and rsync write it: `user@host:path`."""
_ADDRESS = re.compile(r"\b([a-z][a-z0-9+.-]*://)[^\s\"'`)\]/?#]+/?([^\s\"'`)\]?#]*)[^\s\"'`)\]]*")
_ON_HUB = ("hf", "ir-datasets", "pyserini")
"""Loaders whose sources are names, unless a file of that name exists."""


def without_paths(value: Any) -> Any:
    """Return a copy of a value in which paths in strings, also nested ones, are cut to their last part."""
    if isinstance(value, str):
        return _cut(value)
    if isinstance(value, Mapping):
        return {without_paths(key): without_paths(item) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [without_paths(item) for item in value]
    return value


def dataset_name(setting: Any) -> Any:
    """Return the dataset of a recipe, `LOADER:SOURCE` or a mapping, with a folder's path cut to its name."""
    if isinstance(setting, Mapping):
        named, source = dict(setting), setting.get("source")
        cut = _source(str(setting.get("name", "")), source) if isinstance(source, str) else source
        return without_paths(named | ({"source": cut} if "source" in named else {}))
    loader, colon, source = str(setting).partition(":")
    return f"{loader}:{_source(loader, source)}" if colon else _cut(loader)


def _source(loader: str, source: str) -> str:
    if loader in _ON_HUB and HUB_ID.fullmatch(source.split("@")[0].replace("/", "-")) and not os.path.exists(source):
        return source
    return _last(source)


def _cut(text: str) -> str:
    if not any(sign in text for sign in "/\\~"):
        return text
    # of an address the host, the user and the query may be private
    text = _ADDRESS.sub(lambda match: f"{match[1]}...{'/' + _last(match[2]) if match[2] else ''}", text)
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


def _last(path: str) -> str:
    """Return the last part of a path, or `folder` if that is the name of the user or the home folder."""
    name = re.split(r"[/\\]", path.rstrip("/\\"))[-1]
    own = {"", "~", ".", "..", Path.home().name}
    with suppress(OSError, KeyError, ImportError):
        own.add(getpass.getuser())
    return "folder" if name in own or name.startswith("~") else name
