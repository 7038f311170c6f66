"""The walk of docs/commands.md, its own commands on a tiny collection; the ones that need Java are left out."""

import re
import shlex
import shutil
from pathlib import Path

from command_line import hardneg
from recipes.recipes import small_collection

PAGE = Path(__file__).parents[2] / "docs" / "commands.md"
STAGES = ("encode", "index", "search", "mine", "train", "evaluate", "report")


def test_the_page_from_a_beir_folder_to_a_report(session, tiny_model):
    small_collection(session / "scifact")
    blocks = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
    commands = [line for block in blocks for line in block.split("\n")]
    lines = [line.replace("packaged:all-MiniLM-L6-v2", str(tiny_model)) for line in commands if line]
    lines = [line.replace("max_steps=100", "max_steps=2") for line in lines]
    assert {shlex.split(line)[1] for line in lines} == set(STAGES)
    for line in lines:
        program, command, *arguments = shlex.split(line)
        assert program == "hardneg"
        if "bm25" in arguments:
            continue
        if command in ("evaluate", "report"):
            shutil.copy("start.trec.gz", "bm25.trec.gz")
        else:
            arguments += ["--device", "cpu"]
        hardneg(command, *arguments)
        for made in re.findall(r"--output (\S+)", line):
            assert Path(made).exists(), line
    page = Path("report/report.md").read_text()
    assert "# SciFact" in page and "trained.trec.gz" in page
    assert "Means over 14 queries." in Path("report/report.html").read_text()
