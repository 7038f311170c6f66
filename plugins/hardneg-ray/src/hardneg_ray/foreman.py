"""Gives the missing blocks of a stage to the actors of a cluster until all are made."""

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace

from ray.exceptions import RayError

from hardneg.plugin import ArtifactError, Silent, StageBlocks, StageContext, StageSpec, Task, UsageError, replace_text
from hardneg_ray.cluster import Cluster
from hardneg_ray.crew import Crew, Lost, Member
from hardneg_ray.desk import Desk, choices_file
from hardneg_ray.ranges import Ranges
from hardneg_ray.reports import Block, Failed, Opened, Report
from hardneg_ray.travel import manifests
from hardneg_ray.worker import Assignment, token_file

_PAUSE = 1.0  # seconds between two looks at the cluster, at most


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
        replace_text(token_file(context.folder), token := uuid.uuid4().hex)
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
