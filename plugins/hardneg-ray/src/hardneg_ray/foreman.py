"""The driver: opens a stage, gives its missing blocks to the actors of a cluster, and puts them together."""

import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from ray.exceptions import RayError

from hardneg.plugin import (
    CHOICE,
    SCRATCH,
    ArtifactError,
    Silent,
    StageBlocks,
    StageContext,
    StageSpec,
    Task,
    UsageError,
    atomic_write,
)
from hardneg_ray.cluster import Cluster, ClusterLost
from hardneg_ray.crew import Crew, Lost, Member
from hardneg_ray.desk import Desk, choices_file, choices_in
from hardneg_ray.engine import Ray
from hardneg_ray.joining import joined
from hardneg_ray.travel import manifests
from hardneg_ray.worker import Assignment, Block, Failed, Opened, Report, token_file

_MOST = 16  # blocks at a time
_PAUSE = 1.0  # seconds between two looks at the cluster, at most


class Ranges:
    """The numbers of the blocks that are missing and with no actor, and how often each was lost."""

    def __init__(self, missing: Iterable[int]) -> None:
        self._missing = sorted(missing)
        self._lost = Counter[int]()

    def __len__(self) -> int:
        return len(self._missing)

    def take(self, actors: int) -> Sequence[int]:
        """Blocks for one of so many actors: half of its even share, so that the last ones come out together.

        A faster actor comes more often. They follow each other, as a pass over a run or an index then serves them all.
        They are few, as the cluster may grow.
        """
        share = min(_MOST, max(1, len(self._missing) // (2 * max(1, actors))))
        taken = [number for i, number in enumerate(self._missing[:share]) if number == self._missing[0] + i]
        self._missing = self._missing[len(taken) :]
        return taken

    def give_back(self, numbers: Iterable[int]) -> int:
        """Blocks of an actor that was lost; returns how often the one was lost that was lost the most."""
        back = list(numbers)
        self._missing = sorted([*self._missing, *back])
        self._lost.update(back[:1])
        return max((self._lost[number] for number in back[:1]), default=0)


@dataclass
class Foreman:
    """A stage at work on a cluster; blocks: as the driver has opened it."""

    context: StageContext[StageSpec]
    blocks: StageBlocks
    crew: Crew
    ranges: Ranges
    task: Task
    began: float = field(default_factory=time.monotonic)
    unopened: int = 0

    @classmethod
    @contextmanager
    def at_work(
        cls, cluster: Cluster, context: StageContext[StageSpec], blocks: StageBlocks, missing: set[int]
    ) -> Iterator["Foreman"]:
        """With actors that end when the block does."""
        needs = cluster.needs(context.device)
        device = context.device or ("cuda" if needs.num_gpus else "cpu")
        shared = None if cluster.options.shared == "auto" else cluster.options.shared
        folders = [context.folder, *(item.path for item in context.inputs.values() if item.path is not None)]
        desk = cluster.beside_driver(Desk).remote(choices_file(context.folder), folders)
        quiet = replace(context, progress=Silent(), device=device)
        atomic_write.replace_text(token_file(context.folder), token := uuid.uuid4().hex)
        common = Assignment(quiet, token, shared, cluster.options.store, manifests(context.inputs), desk)
        crew = Crew(cluster, common, needs)
        total, left = sum(blocks.sizes), sum(blocks.sizes[number] for number in missing)
        with context.progress.task(f"{context.name} by ray", total, blocks.unit, total - left) as task:
            try:
                yield cls(context, blocks, crew, Ranges(missing), task)
            finally:
                with suppress(RayError):
                    crew.dismiss_all()

    def make(self) -> None:
        """Has all blocks made.

        Raises:
            UsageError: there is no room for an actor.
            ArtifactError: the same blocks were lost too often.
            ClusterLost: the Ray processes of this machine are gone.
            HardnegError: an actor's own.
        """
        looked = 0.0
        while self.ranges or any(member.working for member in self.crew.members):
            if time.monotonic() - looked > _PAUSE:
                self._look()
                looked = time.monotonic()
            for member in self.crew.ready:
                if self.ranges and not member.working:
                    self.crew.give(member, self.ranges.take(len(self.crew.members)))
            try:
                for member, report in self.crew.reports(_PAUSE):
                    self._take(member, report)
            except Lost as lost:
                self._give_up(lost.member)

    def _look(self) -> None:
        """Whether the cluster is there; more actors, where there is work and room."""
        self.crew.cluster.check()
        working = sum(member.working for member in self.crew.members)
        self.crew.hire(self.crew.wanted(len(self.ranges) + working))
        machines = {member.opened.node for member in self.crew.members if member.opened}
        self.task.describe(f"{len(self.crew.ready)} actors on {len(machines)} machines")
        if not self.crew.ready and time.monotonic() - self.began > self.crew.cluster.options.patience:
            self._check_room()

    def _check_room(self) -> None:
        if not self.crew.anyone_there():
            problem = (
                f"no room for an actor of {self.crew.needs.words} within {self.crew.cluster.options.patience:g} seconds"
            )
            raise UsageError(f"engine ray: {problem}: see `ray status`, and options num_gpus and num_cpus")

    def _take(self, member: Member, report: Report | None) -> None:
        if isinstance(report, Failed):
            raise report.error()
        if isinstance(report, Opened):
            member.opened = report
        elif isinstance(report, Block):
            if report.content is not None:
                self.blocks.write(report.number, report.content)
            member.numbers.remove(report.number)
            self.task.advance(self.blocks.sizes[report.number])

    def _give_up(self, member: Member) -> None:
        """Gives out again what a lost actor has not finished."""
        self.crew.dismiss(member)
        self.crew.cluster.check()
        finished = self.blocks.finished()
        done = [number for number in member.numbers if number in finished]
        self.task.advance(sum(self.blocks.sizes[number] for number in done))
        left = [number for number in member.numbers if number not in finished]
        self.unopened += not member.opened
        times = max(self.ranges.give_back(left), self.unopened)
        where = f" on {member.opened.node}" if member.opened else ""
        problem = f"{self.context.name}: an actor{where} was lost"
        if times >= self.crew.cluster.options.losses:
            at = f" with block {left[0]}" if left else " before it had opened the stage"
            raise ArtifactError(
                f"{problem}{at}, for the {times}th time: is there memory enough? What was finished is kept"
            )
        self.context.progress.note(f"{problem}; others make its {len(left)} blocks")


def make(options: Ray, context: StageContext[StageSpec]) -> Mapping[str, Any]:
    """A stage; one that reads files of this machine alone is made by this process. Raises as `Ray.make`."""
    if (context.device or "").startswith("cuda:"):
        raise UsageError(
            f"{{device}} {context.device}: Ray gives each actor its own GPU: say cuda, or leave it out", "device"
        )
    context.keep_only(SCRATCH)
    blocks = context.spec.blocks(replace(context, device="cpu"))
    if not blocks.travels:
        context.progress.note(f"{context.name}: reads files of this machine, which makes it")
        return context.spec.make(context)
    _make_all(options, context, blocks)
    chosen = choices_in(choices_file(context.folder))
    choices = {subject.removeprefix(CHOICE): way for subject, way in chosen.items()}
    return {**blocks.finish(), **({"choices": choices} if choices else {})}


def _make_all(options: Ray, context: StageContext[StageSpec], blocks: StageBlocks) -> None:
    """Has all blocks made; a cluster that was started here is started again where it is lost."""
    for again in range(options.losses):
        missing = set(range(len(blocks.sizes))) - blocks.finished()
        if not missing:
            return
        try:
            with joined(options) as cluster, Foreman.at_work(cluster, context, blocks, missing) as foreman:
                return foreman.make()
        except ClusterLost as error:
            if not error.started or again == options.losses - 1:
                raise
            context.progress.note(f"{context.name}: the Ray processes of this machine are gone; they start again")
