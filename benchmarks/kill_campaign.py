"""Kills a recipe's run again and again with SIGKILL, and compares what it comes to with a run that was left alone.

    python benchmarks/kill_campaign.py [--kills 100] [--seed 0] [--recipe star-passage] [--preset small] [--set ...]

By default the recipe is cut down to seconds or a few minutes: few passages, tiny random networks, short trainings, and
what CUT says of it (a recipe's own settings there; --set goes before all of them). Rounds follow one another, each with
an empty store: a run is started, killed, and started again until it ends. Each kill aims at one of the next three steps
that are not finished, the run folder as the last of them (one in ten at the start of the program), at a random moment
within the time that this took in the run that was left alone. The step that a kill hit is told by the store: the one
whose `.partial` folder is there. At the end of a round all results are compared byte for byte. The seconds lost are
those of all rounds beyond what as many undisturbed runs take; nearly all of them are for starting the program again.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from hardneg.recipes.load import load_recipe
from hardneg.recipes.plan import Plan, make_plan
from hardneg.recipes.yaml_load import find_recipe
from hardneg.stages.train_reranker import TrainReranker
from hardneg.store.artifacts import Artifact, Store

START, PUBLISH, BETWEEN = "(start of the program)", "(run folder)", "(between steps)"
AHEAD = 3
AT_THE_START = 0.1
TRAINED = {"max_steps": 40, "checkpoint_every": 5, "evaluate_every": 20}
DUALS = ("rocketqa-1", "rocketqa-3", "rocketqa-4")
FEW = {"batch_size": 24, "chunk": 8, "max_steps": 10, "checkpoint_every": 2, "evaluate_every": 10}
ROCKETQA = [
    *(f"stages.{stage}.options.{option}={value}" for stage in DUALS for option, value in FEW.items()),
    # A tiny cross-encoder tells little apart: the thresholds lie in the middle of its scores.
    "stages.cross-encoder.loss=infonce",
    "stages.cross-encoder.options.learning_rate=1e-3",
    "stages.denoised-negatives.miner.below=0.517",
    "stages.pseudo-labels.above=0.517",
    "stages.pseudo-labels.below=0.517",
]
CUT = {"rocketqa-passage": ROCKETQA}
LONGEST = 900
COMPARED = ("metrics.json", "runs/*", "answers/*", "model/**/*", "index/*", "rerankers/**/*", "readers/**/*")
MINED = ("negatives.arrow", "dropped.arrow")


@dataclass(frozen=True)
class Campaign:
    """What is run and where; the seconds of each step, the start, the run folder and the whole, undisturbed."""

    plan: Plan
    arguments: list[str]
    folder: Path
    seconds: dict[str, float]
    whole: float = 0

    def start(self, place: Path) -> subprocess.Popen[bytes]:
        """The recipe in a process group of its own; store, run folder and log below `place`."""
        place.mkdir(exist_ok=True)
        command = [sys.executable, "-m", "hardneg", "recipe", "run", *self.arguments, "--device", "cpu"]
        with (place / "log").open("ab") as log:
            return subprocess.Popen(
                [*command, "--store", str(place / "store"), "--output", str(place / "out")],
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={"OMP_NUM_THREADS": "1", **os.environ},
            )

    def unfinished(self, place: Path) -> list[str]:
        """The steps that the store does not have."""
        return [name for name, step in self.plan.steps.items() if not (place / "store" / step.key).exists()]

    def working(self, place: Path) -> list[str]:
        """The steps whose `.partial` folder is there."""
        steps = self.plan.steps.items()
        return [name for name, step in steps if (place / "store" / f"{step.key}.partial").exists()]


def undisturbed(plan: Plan, arguments: list[str], folder: Path) -> Campaign:
    """Runs the recipe once, and notes how long everything took."""
    campaign = Campaign(plan, arguments, folder, {})
    whole, begun = folder / "whole", time.monotonic()
    process = campaign.start(whole)
    wait(process, lambda: (whole / "store").exists())
    campaign.seconds[START] = time.monotonic() - begun
    wait(process, lambda: not campaign.unfinished(whole))
    ended = time.monotonic()
    check(process.wait(LONGEST), whole)
    campaign.seconds[PUBLISH] = time.monotonic() - ended
    taken = time.monotonic() - begun
    for name in plan.steps:
        campaign.seconds[name] = float(found(campaign, whole, name).facts["seconds"])
    return replace(campaign, whole=taken)


def found(campaign: Campaign, place: Path, step: str) -> Artifact:
    """The finished artifact of a step."""
    artifact = Store(place / "store").find(campaign.plan.steps[step].key)
    if artifact is None:
        sys.exit(f"{step} is not in {place / 'store'}")
    return artifact


def check(code: int, place: Path) -> None:
    """Ends the campaign where a run failed by itself."""
    if code:
        last = (place / "log").read_text(errors="replace").splitlines()[-20:]
        sys.exit("\n".join([*last, f"a run failed with exit code {code}"]))


def wait(process: subprocess.Popen[bytes], until: Callable[[], bool]) -> bool:
    """Whether something came true before the process ended."""
    end = time.monotonic() + LONGEST
    while not until():
        if process.poll() is not None:
            return False
        if time.monotonic() > end:
            os.killpg(process.pid, signal.SIGKILL)
            sys.exit(f"a run did not come on within {LONGEST} s")
        time.sleep(0.002)
    return True


def attempt(campaign: Campaign, place: Path, draw: random.Random) -> str | None:
    """Starts the recipe and kills it at some moment; where that hit it, or None where it ended by itself, well."""
    process = campaign.start(place)
    ahead = [*campaign.unfinished(place), PUBLISH][:AHEAD]
    target = START if draw.random() < AT_THE_START else draw.choice(ahead)
    if target == START:
        reached = True
    elif target == PUBLISH:
        reached = wait(process, lambda: not campaign.unfinished(place))
    else:
        reached = wait(process, lambda: target in campaign.working(place))
    if reached:
        time.sleep(draw.uniform(0, campaign.seconds[target]))
    ended = process.poll() is not None
    if not ended:
        os.killpg(process.pid, signal.SIGKILL)
    code = process.wait()
    if ended or code != -signal.SIGKILL:
        check(code, place)
        return None
    if target in (START, PUBLISH):
        return target
    return ", ".join(campaign.working(place)) or BETWEEN


def differences(campaign: Campaign, place: Path) -> list[str]:
    """The results that are not those of the undisturbed run, byte for byte."""
    whole = campaign.folder / "whole"
    pairs = {path.relative_to(whole / "out"): path for pattern in COMPARED for path in (whole / "out").glob(pattern)}
    found_other = [
        str(name)
        for name, path in pairs.items()
        if path.is_file() and (place / "out" / name).read_bytes() != path.read_bytes()
    ]
    for name, step in campaign.plan.steps.items():
        if step.spec.artifact_type == "negatives":
            one, other = (mined(found(campaign, where, name)) for where in (whole, place))
            found_other += [name] if one != other else []
    return found_other


def mined(artifact: Artifact) -> dict[str, bytes]:
    """What a stage that mines or labels has written."""
    return {name: (artifact.path / name).read_bytes() for name in MINED if (artifact.path / name).exists()}


def rounds(campaign: Campaign, kills: int, draw: random.Random) -> tuple[Counter[str], list[list[str]], float]:
    """How many kills hit what, for each round what differed at its end, and the seconds lost in all."""
    hits: Counter[str] = Counter()
    ends: list[list[str]] = []
    begun = time.monotonic()
    while hits.total() < kills:
        place = campaign.folder / f"round-{len(ends)}"
        while hits.total() < kills and (hit := attempt(campaign, place, draw)) is not None:
            hits[hit] += 1
            print(f"kill {hits.total()}: {hit}", file=sys.stderr, flush=True)
            if hit == PUBLISH:
                break
        check(campaign.start(place).wait(LONGEST), place)
        ends.append(differences(campaign, place))
    return hits, ends, time.monotonic() - begun - len(ends) * campaign.whole


def table(campaign: Campaign, hits: Counter[str], ends: list[list[str]], lost: float) -> int:
    """Prints what happened; the exit code: 1 where a round did not end as the undisturbed run."""
    print("kills  step")
    for name in [START, *campaign.plan.steps, PUBLISH, BETWEEN, *(name for name in hits if "," in name)]:
        print(f"{hits[name]:5}  {name}")
    print(f"{hits.total():5}  in all, as many restarts, {len(ends)} rounds, all of them finished")
    start = campaign.seconds[START]
    print(f"{lost / hits.total():.1f} s lost a kill, a start of the program takes {start:.1f} s of them")
    other = {name for names in ends for name in names}
    same = sum(not names for names in ends)
    what = "metrics by query, runs, answers, negatives, what was dropped, models and index"
    print(f"{same} of {len(ends)} rounds: {what} equal byte for byte")
    if other:
        print(f"different: {', '.join(sorted(other))}")
    hit_steps = {name for hit in hits for name in hit.split(", ")}
    missed = [name for name in campaign.plan.steps if name not in hit_steps]
    if missed:
        print(f"not hit: {', '.join(missed)}")
    return int(bool(other))


def cut_down(name: str, preset: str | None, folder: Path) -> list[str]:
    """Settings with which a recipe takes little time, a tiny random encoder in the place of each network among them."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from tiny import tiny_encoder

    tiny = tiny_encoder(folder / "encoder")
    settings = ["dataset.max_passages=800", f"model={{name: {tiny}, query_length: 32, document_length: 64}}"]
    for stage, spec in load_recipe(find_recipe(name), preset).stages.items():
        if hasattr(getattr(spec, "options", None), "max_steps"):
            settings += [f"stages.{stage}.options.{option}={value}" for option, value in TRAINED.items()]
        if isinstance(spec, TrainReranker):
            settings.append(f"stages.{stage}.reranker.source={tiny}")
        if spec.stage == "train-reader":
            settings.append(f"stages.{stage}.reader.name={tiny}")
    return [*settings, *CUT.get(name, [])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--recipe", default="star-passage")
    parser.add_argument("--preset", help="the recipe's preset; `demo` where none is given")
    parser.add_argument("--whole", action="store_true", help="the recipe as it is, not cut down")
    parser.add_argument("--set", action="append", default=[], dest="settings", metavar="PATH=VALUE")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        settings = [*([] if options.whole else cut_down(options.recipe, options.preset, folder)), *options.settings]
        plan = make_plan(load_recipe(find_recipe(options.recipe), options.preset, settings))
        preset = ["--preset", options.preset] if options.preset else []
        arguments = [options.recipe, *preset, *(word for setting in settings for word in ("--set", setting))]
        campaign = undisturbed(plan, arguments, folder)
        print(f"undisturbed: {sum(campaign.seconds.values()):.1f} s", file=sys.stderr)
        code = table(campaign, *rounds(campaign, options.kills, random.Random(options.seed)))
    sys.exit(code)


if __name__ == "__main__":
    main()
