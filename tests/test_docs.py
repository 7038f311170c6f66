"""Pages of docs: links, recipes, commands and programs."""

import ast
import importlib
import importlib.util
import re
import shlex
from collections.abc import Iterator
from fnmatch import fnmatchcase
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sentence_transformers.sentence_transformer.losses as losses
import sentence_transformers.sparse_encoder.losses as sparse_losses
import torch
import yaml
from cli.commands import every_command, package_commands
from torch.nn.functional import normalize

from hardneg.evaluation.metrics import parse_metrics
from hardneg.losses.infonce import InfoNCE
from hardneg.recipes import named_recipes
from hardneg.records import ScoreBatch
from hardneg.registry import OUTSIDE, list_plugins, load_plugin
from hardneg.training.options import TrainOptions

ROOT = Path(__file__).parents[1]
HIDDEN = {"runs", "site", "build", "dist", "node_modules"}
PAGES = sorted(
    path
    for path in ROOT.rglob("*.md")
    if not any(part.startswith(".") or part in HIDDEN for part in path.relative_to(ROOT).parts)
)


MADE = {f"docs/reference/{name}.md" for name in ("commands", "plugin-module", "plugins", "python", "verbs")}
COMMANDS = every_command() | package_commands()
LONGEST = 120


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def prose(text: str) -> Iterator[tuple[int, str]]:
    """Lines with their numbers; code blocks are left out."""
    fenced = indented = False
    before = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            indented = line.startswith("    ") and (indented or not before.strip())
            if not indented:
                yield number, line
        before = line


def anchors(path: Path) -> set[str]:
    heads = [line.lstrip("#").strip() for _, line in prose(path.read_text(encoding="utf-8")) if line.startswith("#")]
    plain = (re.sub(r"[^\w\s-]", "", head.replace("`", "").lower()).strip() for head in heads)
    return {re.sub(r"[\s]+", "-", head) for head in plain} | {re.sub(r"[-\s]+", "-", head) for head in plain}


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_no_line_is_long(page: Path) -> None:
    found = prose(page.read_text(encoding="utf-8"))
    assert [number for number, line in found if len(line) > LONGEST and not line.lstrip().startswith("|")] == []


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_all_links_lead_somewhere(page: Path) -> None:
    lost = []
    text = "\n".join(line for _, line in prose(page.read_text(encoding="utf-8")))
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", text)):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        place = (page.parent / name).resolve() if name else page
        made = place.is_relative_to(ROOT) and named(place) in MADE
        if not (made or place.exists()) or (anchor and not made and anchor not in anchors(place)):
            lost.append(target)
    assert lost == []


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_files_that_are_named_are_there(page: Path) -> None:
    names = r"`((?:hardneg|tests|benchmarks|plugins|recipes|docs)/[\w./-]+)`"
    found = re.findall(names, page.read_text(encoding="utf-8"))
    own = [name for name in found if "NAME" not in name and "alternate" not in name]
    assert [name for name in own if not (ROOT / name).exists() and not (page.parent / name).exists()] == []


def commands() -> Iterator[tuple[str, str]]:
    """Every `hardneg ...` of a code block, with its page; comments, pipes and what may be left out are cut off."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8").replace("\\\n", " ")
        words = dict(prose(text))
        code = [line.strip() for number, line in enumerate(text.splitlines(), 1) if number not in words]
        for line in code:
            if match := re.match(r"(?:\.venv/bin/)?(hardneg .*)", line):
                command = re.sub(r"\[[^\]]* ?[^\]]*\](?= |$)", "", re.split(r"\s+[#>|]|\s\.\.\.$|\$\(", match[1])[0])
                yield named(page), command.strip()


FOUND = sorted(set(commands()))


@pytest.mark.parametrize(("page", "line"), FOUND)
def test_the_command_exists_with_its_options(page: str, line: str) -> None:
    arguments = shlex.split(line)[1:]
    words = next((words for count in (3, 2, 1) if (words := tuple(arguments[:count])) in COMMANDS), None)
    if words is None:
        own = (ROOT / page).parent / "pyproject.toml"  # a package's own analysis need not be installed
        own_points = own.read_text(encoding="utf-8") if own.exists() else ""
        brought = arguments[0] == "analyze" and f"\n{arguments[1]} = " in own_points
        assert arguments[0].startswith("--") or brought or ("apps", arguments[0]) in OUTSIDE, line
        return
    context = COMMANDS[words].make_context(" ".join(words), arguments[len(words) :])
    recipe = context.params.get("recipe") or (context.params.get("name") if words[0] == "recipe" else None)
    if recipe and not recipe.isupper() and not recipe.endswith(".yaml"):
        assert recipe in named_recipes() or not find_spec("hardneg_papers"), line


def stages_in_examples() -> Iterator[tuple[str, str, dict[str, object]]]:
    """Every whole stage of a YAML block, with its page and name; short forms of recipes have tests of their own."""
    for page in PAGES:
        if not page.is_relative_to(ROOT / "docs") or page.name in ("recipes.md", "write-a-plugin.md"):
            continue
        for block in re.findall(r"```yaml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
            found = yaml.safe_load(block)
            for name, stage in found.get("stages", found).items():
                if isinstance(stage, dict) and "stage" in stage:
                    yield named(page), name, stage


STAGES = list(stages_in_examples())


@pytest.mark.parametrize(("page", "name", "stage"), STAGES)
def test_an_example_is_what_its_verb_takes(page: str, name: str, stage: dict[str, object]) -> None:
    """But for `system`, a short form that recipes expand."""
    written = {name: value for name, value in stage.items() if name != "system"}
    load_plugin("stages", str(stage["stage"])).model_validate(written)


def test_the_site_has_every_page() -> None:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = set(re.findall(r"[\w./-]+\.md", str(yaml.safe_load(text)["nav"])))
    folders = [ROOT / "docs", ROOT / hook("reference").PAPERS]
    there = {path.relative_to(at).as_posix() for at in folders for path in PAGES if path.is_relative_to(at)}
    assert listed == there | {name.removeprefix("docs/") for name in MADE}


def test_the_architecture_names_every_part() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    named_parts = {part for line in rows for part in re.findall(r"`([\w/]+)`", line)}
    parts = {path.name + "/" for path in (ROOT / "hardneg").iterdir() if (path / "__init__.py").exists()}
    parts |= {path.stem for path in (ROOT / "hardneg").glob("*.py") if not path.stem.startswith("__")}
    assert parts - named_parts == set()


def hook(name: str) -> Any:
    """A module of docs/ that mkdocs calls."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_site_lists_the_commands_and_names_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPOSITORY_URL", "https://example.org/team/hardneg")
    nav = [{"Home": "index.md"}, {"Reference": [{"Glossary": "glossary.md"}, {"Commands": "reference/commands.md"}]}]
    reference = hook("reference")
    config = reference.on_config({"nav": nav})
    first, search, *more = config["nav"][1]["Reference"][1]["Commands"]
    assert first == {"All commands": "reference/commands.md"}
    assert {"search": "reference/commands/search.md"} in [search, *more]
    [recipe] = [item["recipe"] for item in more if "recipe" in item]
    assert {"recipe run": "reference/commands/recipe/run.md"} in recipe
    home = SimpleNamespace(file=SimpleNamespace(src_uri="install.md"))
    text = reference.on_page_markdown("Here:\n\n    pip install x\n    pip install y\n", home, config, None)
    clone = "    git clone https://example.org/team/hardneg && cd hardneg\n"
    assert text == f"Here:\n\n{clone}    pip install x\n    pip install y\n"


def test_the_site_has_every_page_as_markdown_and_a_list_of_them(tmp_path: Path) -> None:
    def page(name: str, title: str, markdown: str, *part: str) -> SimpleNamespace:
        ancestors = [SimpleNamespace(title=each) for each in part]
        return SimpleNamespace(file=SimpleNamespace(src_uri=name), title=title, markdown=markdown, ancestors=ancestors)

    pages = [
        page("index.md", "Home", "# hardneg\n\nTrains [models](models.md). More.\n"),
        page("methods/star.md", "STAR", "# STAR\n\n    hardneg recipe run x\n\nIs it *good*? Yes.\n", "Methods"),
    ]
    site = hook("markdown_pages")
    site.on_nav(SimpleNamespace(pages=pages), None, None)
    site.on_post_build({"site_dir": str(tmp_path), "site_name": "hardneg", "site_description": "It.", "site_url": None})
    assert (tmp_path / "methods" / "star.md").read_text() == pages[1].markdown
    assert (tmp_path / "llms.txt").read_text() == (
        "# hardneg\n\n> It.\n\n## Home\n\n- [Home](index.md): Trains models.\n"
        "\n## Methods\n\n- [STAR](methods/star.md): Is it *good*?\n"
    )


def test_the_reference_has_all_commands_verbs_and_plugins() -> None:
    pages: dict[str, str] = hook("reference").pages()
    own = {f"commands/{'/'.join(words)}": f"`hardneg {' '.join(words)}`" for words in COMMANDS}
    assert all(pages[name].startswith(f"# {title}\n") for name, title in own.items())
    assert all(f"| [{title}]({name}.md) | " in pages["commands"] for name, title in own.items())
    assert "| `alpha` |" in pages["plugins"]
    assert all(f"### `{plugin.name}`" in pages["plugins"] for plugin in list_plugins())
    assert {f"## `hardneg.{name}`" for name in ("load_recipe", "mine", "search")} < set(pages["python"].splitlines())
    head, _, search = pages["verbs"].partition("## `search`\n")
    assert "## `encode`" in head and "Makes: run." in search and "| `depth` | whole number | `100` |" in search
    assert "| `index` | stage that makes index | required |" in search and "| `warmup_steps` |" in pages["verbs"]


PAGE = Path(__file__).parents[1] / "docs" / "python.md"


def blocks(page: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", page, flags=re.DOTALL | re.MULTILINE)


def expected(line: str) -> str | None:
    """What stands behind the last `  # ` of a line."""
    code, sign, told = line.rpartition("  # ")
    return told if sign and code else None


def checked(block: str, known: dict[str, object], capsys: pytest.CaptureFixture[str]) -> int:
    """Runs a block, and compares; returns how many values were compared."""
    lines, count = block.splitlines(), 0
    for node in ast.parse(block).body:
        told = expected(lines[(node.end_lineno or 0) - 1])
        capsys.readouterr()
        if isinstance(node, ast.Expr) and told is not None:
            value = eval(compile(ast.Expression(node.value), str(PAGE), "eval"), known)
            assert repr(value) == told, ast.unparse(node)
        else:
            exec(compile(ast.Module([node], []), str(PAGE), "exec"), known)
            if told is None:
                continue
            assert fnmatchcase(capsys.readouterr().out.strip(), told.replace("[", "[[]")), told
        count += 1
    return count


@pytest.mark.slow
def test_the_examples_of_the_page(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HARDNEG_STORE", str(tmp_path / "store"))
    found, known = blocks(PAGE.read_text(encoding="utf-8")), dict[str, object]()
    assert sum(checked(block, known, capsys) for block in found) > 12


COMING_PAGE = (Path(__file__).parents[1] / "docs" / "coming-from-sentence-transformers.md").read_text(encoding="utf-8")


def table(heading: str) -> list[tuple[str, str]]:
    """The rows below a heading, each as its two columns."""
    section = COMING_PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("|")]
    return [(first, second) for first, second in rows[2:]]


def test_the_losses_are_those_of_both() -> None:
    rows = table("Losses")
    theirs = {name for first, _ in rows for name in re.findall(r"`(\w+Loss)", first)}
    assert len(theirs) >= 9 and all(hasattr(losses, name) or hasattr(sparse_losses, name) for name in theirs)
    ours = {plugin.name for plugin in list_plugins("losses")}
    named = {name for _, second in rows for name in re.findall(r"`([a-z-]+)`", second)} & ours
    assert named >= {"infonce", "margin-mse", "kl", "triplet", "star", "ranknet", "nll", "hardest", "lambda"}


def test_both_directions_in_one_softmax_are_the_joint_partition() -> None:
    """The row of both directions has the loss of sentence-transformers; with a softmax each it is another."""
    torch.manual_seed(3)
    queries, documents = (normalize(torch.randn(4, 8), dim=1) for _ in range(2))
    scores, own = queries @ documents.T, torch.eye(4, dtype=torch.bool)
    batch = ScoreBatch(scores, own, ~own & False, torch.ones(4, 4, dtype=torch.bool), query_query=queries @ queries.T)
    ours = InfoNCE(temperature=0.05, directions=("query-document", "document-query"))(batch)
    directions = ("query_to_doc", "doc_to_query")
    theirs = {
        mode: losses.MultipleNegativesRankingLoss(None, directions=directions, partition_mode=mode)
        for mode in ("joint", "per_direction")
    }
    values = {mode: loss.compute_loss_from_embeddings([queries, documents], None) for mode, loss in theirs.items()}
    values = {mode: value.item() for mode, value in values.items()}
    assert ours.item() == pytest.approx(values["joint"], rel=1e-5) != pytest.approx(values["per_direction"], rel=1e-2)
    [(_, row)] = [row for row in table("Losses") if "directions=" in row[0]]
    assert "`temperature: 0.05`, `directions: [query-document, document-query]`" in row


def test_the_miners_metrics_and_options_are_there() -> None:
    miners = {plugin.name for plugin in list_plugins("miners")}
    assert {name for _, second in table("Mining") for name in re.findall(r"miner `([\w-]+)`", second)} <= miners
    metrics = [name for _, second in table("Evaluator") for name in re.findall(r"`(\w+@\d+)`", second)]
    assert len(parse_metrics(metrics)) >= 6
    asked = {name for _, second in table("Trainer") for name in re.findall(r"`(\w+)`", second)}
    fields = set(TrainOptions.__dataclass_fields__)
    assert asked - fields == {"seed", "validation"} - fields and len(asked) > 6
