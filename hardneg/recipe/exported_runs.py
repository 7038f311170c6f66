"""The runs of a run folder as shared tasks take them: each in a folder of its own, with its metadata."""

from pathlib import Path

from hardneg.formats.runs import stream_run, write_run
from hardneg.recipe.run_folder import as_yaml, yaml_errors
from hardneg.recipe.yaml_load import parsed
from hardneg.records.errors import DataError
from hardneg.records.layout import IR_METADATA
from hardneg.store.atomic_write import replace_text, replacing_folder

RUN_FILE = "run.txt.gz"
"""The name by which TIRA finds a run."""
_ENDING = ".trec.gz"


def export_runs(folder: Path, output: Path) -> list[str]:
    """Writes each run of a run folder as `NAME/run.txt.gz` and `NAME/ir-metadata.yml`; its name is the tag in both.

    Returns the names of the runs.

    Raises:
        DataError: the folder has no metadata or no runs, or a file of it is damaged.
        ArtifactError: the disk is full.
    """
    metadata_file, names = folder / IR_METADATA, []
    with yaml_errors(metadata_file, "run the recipe again, which writes it"):
        metadata = dict(parsed(metadata_file.read_text(encoding="utf-8")))
    paths = sorted((folder / "runs").glob(f"*{_ENDING}"))
    if not paths:
        raise DataError(f"{folder}: has no runs: give the folder of a recipe that has searched")
    with replacing_folder(output) as new:
        for path in paths:
            names.append(path.name.removesuffix(_ENDING))
            (new / names[-1]).mkdir()
            write_run(new / names[-1] / RUN_FILE, stream_run(path), names[-1])
            replace_text(new / names[-1] / IR_METADATA, as_yaml({**metadata, "tag": names[-1]}))
    return names
