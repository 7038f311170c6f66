"""A model that is in memory, as a folder that recipes can name."""

import shutil
from pathlib import Path
from typing import Any

from hardneg.records.errors import ArtifactError
from hardneg.runtime.distributed import barrier, world


def saved(model: Any, folder: Path) -> Path:
    """Write a model of sentence-transformers into a folder, visible to all processes.

    Raises:
        ArtifactError: the folder cannot be written.
    """
    if world().first:
        shutil.rmtree(folder, ignore_errors=True)
        try:
            model.save_pretrained(str(folder), create_model_card=False)
        except OSError as error:
            raise ArtifactError(f"{folder}: the model cannot be written ({error.strerror or error})") from error
    barrier()
    return folder
