"""Files that results write: by the rule of the commands, so that nothing of the user's is replaced."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hardneg.api.argument_values import file_path
from hardneg.api.results import TextSource
from hardneg.api.workplace import usual_store
from hardneg.store.replaced_files import Outputs, Target


@contextmanager
def writing(
    writer: str,
    paths: Sequence[Any],
    overwrite: bool = False,
    source: TextSource | None = None,
    *,
    reads: Sequence[Path] = (),
) -> Iterator[list[Path]]:
    """The files to write in the block; what stands there must be as the same writer left it, or `overwrite` be given.

    writer: such as `Evaluation.write`, as messages call it. source: of the result, whose store and whose files nothing
    replaces; else the usual store. reads: files that nothing replaces either.

    Raises:
        UsageError: something is no path, is a folder, lies in the store, was read, or is there already.
        ArtifactError: a file cannot be written.
    """
    files = [file_path(path) for path in paths]
    store, known = (source.store, source.reads) if source else (usual_store(None), ())
    outputs = Outputs(writer, [Target(path) for path in files], [*known, *reads], store, overwrite)
    outputs.check()
    with outputs.laid_out():
        yield files
