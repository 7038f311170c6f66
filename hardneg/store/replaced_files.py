"""Outputs of commands and functions: checked first and recorded afterwards, so that no user file is replaced."""

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from hardneg.records import ArtifactError, UsageError
from hardneg.runtime import world
from hardneg.store.artifacts import Store, disk_errors, may_write
from hardneg.store.atomic_write import aside
from hardneg.store.gc_roots import begun, laid_out, record, strangers

WHOLE = ("",)
_log = logging.getLogger("hardneg")


@dataclass(frozen=True)
class Target:
    """A file or a folder to write; of a run folder, the possible `names` in it, and the file that identifies it.

    A folder is replaced whole, a run folder's names one by one; those of folders end in "/". use: how what is already
    there serves as it is, for the message that refuses to replace it.
    """

    path: Path
    folder: bool = False
    names: Sequence[str] = WHOLE
    marked_by: str = ""
    use: str = ""

    @property
    def tops(self) -> list[Path]:
        """The files and folders to replace."""
        return [self.path / name if name else self.path for name in self.names]


@dataclass(frozen=True)
class Words:
    """Words of messages: the argument that names an output, the one that overwrites it, and the writer."""

    output: str = "path"
    overwrite: str = "overwrite=True"
    writer: str = "{}"


@dataclass(frozen=True)
class Outputs:
    """All outputs and inputs of one command or function, and the store that records results.

    command: whose own earlier result may be replaced. keys: of the steps that lead to the outputs; the store keeps them
    from `begun` on. tell: shows a message to the user.
    """

    command: str
    targets: Sequence[Target]
    inputs: Sequence[Path]
    store: Store
    overwrite: bool = False
    keys: Sequence[str] = ()
    words: Words = Words()
    tell: Callable[[str], None] = _log.warning

    def check(self) -> None:
        """Refuse outputs that would replace files of the user, and those that cannot be written.

        Raises:
            UsageError: an output is an input, contains one or is in one; or exists and is not this command's own.
            ArtifactError: an output cannot be written.
        """
        paths = [target.path.resolve() for target in self.targets]
        if root := next((path for path in paths if path == path.parent), None):
            raise UsageError(f"{root}: is the root folder; give a folder of its own")
        tops = [top for target in self.targets for top in target.tops]
        for top in tops:
            try:
                aside(top.absolute()).lstat()
            except (FileNotFoundError, NotADirectoryError):
                pass
            except OSError as error:  # a name that is too long, a closed folder
                raise ArtifactError(f"{top}: cannot be written ({error.strerror}); {self._another}") from None
        problems = [f"{path}: is used for two outputs" for path in set(paths) if paths.count(path) > 1]
        for target in self.targets:
            problems += _path_problems(target, self._another) or [
                *self._input_problems(target),
                *([] if self.overwrite else self._own_problems(target)),
            ]
        if problems:
            raise UsageError("\n".join(problems))
        for top in tops:
            there = next(folder for folder in top.absolute().parents if folder.exists())
            if not there.is_dir() or not may_write(there):
                reason = "writing is not allowed there" if there.is_dir() else "is a file, and no folder"
                raise ArtifactError(f"{there}: {reason}; {self._another}")

    @property
    def _another(self) -> str:
        return f"give another {self.words.output}"

    @contextmanager
    def begun(self) -> Iterator[None]:
        """Check, and keep the steps in the store while the block works, and after it was stopped."""
        self.check()
        if not world().first or not self.keys:
            yield
            return
        with begun(self.store, self.command, self.targets[0].path, self.keys):
            yield

    @contextmanager
    def laid_out(self) -> Iterator[None]:
        """Record what is written in the block as this command's own.

        Raises:
            ArtifactError: the disk is full, read-only, or not ours to write.
        """
        with ExitStack() as stack:
            stack.enter_context(disk_errors(self.targets[0].path, self.words.output))
            for target in self.targets:
                reason: object = f"the store {self.store.root} is read-only" if self.store.read_only else None
                try:
                    stack.enter_context(laid_out(self.store, self.command, target.path, self.keys, target.tops))
                except (ArtifactError, OSError) as error:
                    reason = error
                if reason is not None:
                    self.tell(f"only {self.words.overwrite} will replace {target.path}: {reason}")
            yield

    def _input_problems(self, target: Target) -> Iterator[str]:
        advice = f"which is read here; {self._another}"
        for source in filter(os.path.exists, [*self.inputs, self.store.root]):
            read = source.resolve()
            for top in target.tops:
                resolved = top.resolve()
                if resolved == read or (top.exists() and top.samefile(read)):
                    yield f"{top}: is {source}, {advice}"
                elif read.is_dir() and resolved.is_relative_to(read):
                    yield f"{top}: is in {source}, {advice}"
                elif read.is_relative_to(resolved):
                    yield f"{top}: contains {source}, {advice}"

    def _own_problems(self, target: Target) -> Iterator[str]:
        """The existing files of the target that an earlier run of the same command did not write."""
        there, known = [top for top in target.tops if os.path.lexists(top)], record(self.store, target.path)
        own = known is not None and known.command == self.command
        files = known.files if known and own else {}
        if files is None or (not own and target.marked_by and (target.path / target.marked_by).is_file()):
            return
        if not (foreign := [path for top in there for path in strangers(target.path, top, files)]):
            return
        first = ", ".join(map(str, foreign[:3])) + (f" and {len(foreign) - 3} more" if len(foreign) > 3 else "")
        changed = all(path.relative_to(target.path).as_posix() in files for path in foreign)
        writer = f"`{self.words.writer.format(self.command)}`"
        reason = f"changed since {writer} wrote it" if changed else f"not written by {writer}"
        advice = f"{target.use}; {self._another}" if target.use else self._another
        yield f"{first}: already there, and {reason}; {advice}, or {self.words.overwrite} to replace it"


def _path_problems(target: Target, another: str) -> list[str]:
    path = target.path
    for number, part in enumerate(path.parts):  # once a folder before a `..` is made, the path leads to something else
        if part == ".." and not (before := Path(*path.parts[:number])).is_dir():
            return [f"{path}: {before} does not exist; give a path without it"]
    if target.names != WHOLE:
        if os.path.lexists(path) and not path.is_dir():
            reason = "is a file" if path.exists() else "is a symbolic link that leads nowhere"
            return [f"{path}: {reason}; give the folder to write"]
        problems = []
        for name, top in zip(target.names, target.tops, strict=True):
            wanted, is_wanted = ("folder", top.is_dir) if name.endswith("/") else ("file", top.is_file)
            if top.is_symlink() or (top.exists() and not is_wanted()):
                obstacle = "a symbolic link" if top.is_symlink() else f"no {wanted}"
                problems.append(f"{top}: is {obstacle}, where a {wanted} is expected; move it away, or {another}")
        return problems
    if path.is_symlink():
        return [f"{path}: is a symbolic link; give its target"]
    if path.exists() and not (path.is_dir() if target.folder else path.is_file()):
        wanted = "folder" if target.folder else "file"
        return [f"{path}: is {'a folder' if path.is_dir() else 'a file'}; give the {wanted} to write"]
    resolved, home = path.resolve(), Path(os.path.expanduser("~")).resolve()
    if target.folder and any(kept.is_relative_to(resolved) for kept in (Path.cwd(), home)):
        return [f"{path}: is the folder you work in or your home, or contains it; give a folder of its own"]
    return []
