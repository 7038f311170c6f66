"""The walk of docs/commands.md, its own commands on a tiny collection; the ones that need Java are left out."""

import re
import shlex
import shutil
from collections import defaultdict
from pathlib import Path

from cli.commands import every_command
from command_line import hardneg
from recipes.recipes import small_collection

from hardneg.cli.commands import commands as of_functions

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


OF_OTHER_THINGS = {
    *("--backend", "--baseline", "--dataset", "--depth", "--engine-option", "--filter-by", "--index", "--limit"),
    *("--metric", "--metrics", "--model", "--negatives", "--option", "--output", "--qrels", "--run"),
    *("--set", "--stage", "--until"),
}
"""Options whose help says what they are about in a command; their meaning, in docs/commands.md, is the same."""


def test_the_page_says_which_options_mean_two_things():
    helps = defaultdict(set)
    for command in every_command().values():
        for parameter in command.params:
            for flag in (each for each in parameter.opts if each.startswith("--")):
                helps[flag].add(getattr(parameter, "help", ""))
    differing = {flag for flag, texts in helps.items() if len(texts) > 1}
    (table,) = re.findall(r"^These mean another thing .*?\n\n((?:\|.*\n)+)", PAGE.read_text(), re.MULTILINE)
    rows = [re.split(r" *\| *", line.strip("| \n")) for line in table.splitlines()[2:]]
    assert {option.strip("`") for option, *_ in rows} == differing - OF_OTHER_THINGS
    assert differing >= OF_OTHER_THINGS, "these have one help by now"
    for option, _, other in rows:
        words = re.match("`(.*?)`", other)[1]
        assert option.strip("`") in [flag for each in every_command()[*words.split(),].params for flag in each.opts]


def test_the_page_names_the_commands_that_have_a_common_option():
    """All of the functions'; of other commands those that it names have it."""
    (table,) = re.findall(r"^The \[reference\].*?\n\n((?:\|.*\n)+)", PAGE.read_text(), re.MULTILINE)
    rows = [re.split(r" *\| *", line.strip("| \n")) for line in table.splitlines()[2:]]
    commands = every_command()
    flags = {path: {flag for each in command.params for flag in each.opts} for path, command in commands.items()}
    own = {("evaluate",), *(tuple(name.split()) for name in of_functions())}
    checked = 0
    for options, named, *_ in rows:
        paths = {tuple(words.split()) for words in named.partition(";")[0].partition(", and ")[0].split(", ")}
        if not paths <= {*flags}:  # in other words
            continue
        for option in re.findall(r"`(--[\w-]+)", options):
            checked += 1
            assert {path for path in paths if option not in flags[path]} == set(), option
            assert {path for path in own if option in flags[path]} <= paths, option
    assert checked > 8
