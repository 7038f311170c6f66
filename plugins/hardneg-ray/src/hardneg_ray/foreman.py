"""The driver, which opens a stage, assigns its missing blocks to the actors of a cluster, and finishes the stage."""

import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import ray
from ray.exceptions import ObjectLostError, RayActorError, RayError

import hardneg.plugin as hp
from hardneg_ray.cluster import Cluster, ClusterLost
from hardneg_ray.engine import Ray
from hardneg_ray.joining import joined
from hardneg_ray.worker import Block, BlockActor, Desk, Failed, Opened, Report, choices_file, choices_in, token_file

_MOST = 16  # blocks at a time
_PAUSE = 1.0  # maximum seconds between two checks of the cluster


class Ranges:
    """The numbers of the missing blocks that are not assigned to an actor, and how often each was lost."""

    def __init__(self, missing: Iterable[int]) -> None:
        self._missing = sorted(missing)
        self._lost = Counter[int]()

    def __len__(self) -> int:
        return len(self._missing)

    def take(self, actors: int) -> Sequence[int]:
        """Remove and return the next blocks for one of `actors` actors: half of an equal share, up to a maximum.

        Faster actors thus come back more often, all actors finish at about the same time, and new actors find blocks.
        The blocks are consecutive, so that an actor reads a run or an index in one pass.
        """
        share = min(_MOST, max(1, len(self._missing) // (2 * max(1, actors))))
        taken = [number for i, number in enumerate(self._missing[:share]) if number == self._missing[0] + i]
        self._missing = self._missing[len(taken) :]
        return taken

    def give_back(self, numbers: Iterable[int]) -> int:
        """Put back the blocks of a lost actor; return how often the first of them has been lost, 0 without blocks."""
        back = list(numbers)
        self._missing = sorted([*self._missing, *back])
        self._lost.update(back[:1])
        return max((self._lost[number] for number in back[:1]), default=0)


@dataclass(eq=False)
class Member:
    """An actor and its state. waited: its pending message or stream of messages. numbers: its remaining blocks."""

    actor: Any
    waited: Any
    numbers: list[int] = field(default_factory=list)
    opened: Opened | None = None
    working: bool = False

    def read(self) -> Report | None:
        """Return the next message, or None after its last block. Raises `Lost` if the actor is lost."""
        try:
            if not self.working:
                report: Report = ray.get(self.waited)
                self.waited = None
                return report
            return ray.get(next(self.waited))  # type: ignore[no-any-return]
        except StopIteration:
            self.working, self.waited = False, None
            return None
        except (RayActorError, ObjectLostError) as error:  # the second: its result was on a lost machine
            raise Lost(self) from error


class Lost(Exception):
    """An actor has stopped or cannot be reached."""

    def __init__(self, member: Member) -> None:
        super().__init__()
        self.member = member


class Foreman:
    """The driver of a stage on a cluster. blocks: the work as opened by the driver. members: the actors."""

    def __init__(
        self,
        cluster: Cluster,
        context: hp.stages.StageContext[hp.stages.StageSpec],
        blocks: hp.stage_work.StageBlocks,
        task: hp.runtime.Task,
    ) -> None:
        self.cluster, self.context, self.blocks, self.task = cluster, context, blocks, task
        self.members: list[Member] = []
        self.ranges = Ranges(set(range(len(blocks.sizes))) - blocks.finished())
        self.began, self.unopened = time.monotonic(), 0
        self.needs = cluster.needs(context.device)
        device = context.device or ("cuda" if self.needs.num_gpus else "cpu")
        desk = cluster.beside_driver(Desk).remote(choices_file(context.folder))
        hp.stores.replace_text(token_file(context.folder), token := uuid.uuid4().hex)
        self._given = (replace(context, progress=hp.runtime.Silent(), device=device), token, desk)

    @property
    def ready(self) -> list[Member]:
        """The actors that have opened the stage."""
        return [member for member in self.members if member.opened]

    def make(self) -> None:
        """Compute all blocks on the actors.

        Raises:
            UsageError: there are no free resources for an actor.
            ArtifactError: the same blocks were lost too often.
            ClusterLost: the Ray processes on this machine have stopped.
            HardnegError: an error of the stage on an actor.
        """
        looked = 0.0
        while self.ranges or any(member.working for member in self.members):
            if time.monotonic() - looked > _PAUSE:
                self._look()
                looked = time.monotonic()
            for member in self.ready:
                if self.ranges and not member.working:
                    member.numbers, member.working = list(self.ranges.take(len(self.members))), True
                    streaming = member.actor.make.options(num_returns="streaming")
                    member.waited = streaming.remote(member.numbers)
            waiting = {member.waited: member for member in self.members if member.waited is not None}
            if not waiting:
                continue
            done, _ = ray.wait(list(waiting), num_returns=1, timeout=_PAUSE, fetch_local=False)
            try:
                for waited in done:
                    self._take(waiting[waited], waiting[waited].read())
            except Lost as lost:
                self._give_up(lost.member)

    def dismiss(self, member: Member) -> None:
        """Kill an actor. If it survives for a while, this is harmless: its replacements write the same bytes."""
        self.members.remove(member)
        ray.kill(member.actor)

    def _look(self) -> None:
        """Check that the cluster is up; start more actors if there is work and room, and one for a new machine."""
        self.cluster.check()
        options, working = self.cluster.options, sum(member.working for member in self.members)
        most = self.cluster.room(self.needs) + 1 if options.actors == "auto" else options.actors
        actors = ray.remote(BlockActor).options(num_cpus=self.needs.num_cpus, num_gpus=self.needs.num_gpus)
        for _ in range(len(self.members), min(most, len(self.ranges) + working)):
            actor = actors.remote(*self._given)
            self.members.append(Member(actor, actor.open.remote()))
        machines = {member.opened.node for member in self.members if member.opened}
        self.task.describe(f"{len(self.ready)} actors on {len(machines)} machines")
        if not self.ready and time.monotonic() - self.began > options.patience:
            present = [member.actor.__ray_ready__.remote() for member in self.members]
            if not present or not ray.wait(present, num_returns=1, timeout=_PAUSE)[0]:
                problem = f"no free resources for an actor with {self.needs.words} after {options.patience:g} seconds"
                raise hp.errors.UsageError(
                    f"engine ray: {problem}; check `ray status`, and the options num_gpus and num_cpus"
                )

    def _take(self, member: Member, report: Report | None) -> None:
        if isinstance(report, Failed):
            raise report.error()
        if isinstance(report, Opened):
            member.opened = report
        elif isinstance(report, Block):
            member.numbers.remove(report.number)
            self.task.advance(self.blocks.sizes[report.number])

    def _give_up(self, member: Member) -> None:
        """Reassign the unfinished blocks of a lost actor."""
        self.dismiss(member)
        self.cluster.check()
        finished = self.blocks.finished()
        self.task.advance(sum(self.blocks.sizes[number] for number in member.numbers if number in finished))
        left = [number for number in member.numbers if number not in finished]
        self.unopened += not member.opened
        times = max(self.ranges.give_back(left), self.unopened)
        where = f" on {member.opened.node}" if member.opened else ""
        problem = f"{self.context.name}: an actor{where} was lost"
        if times >= self.cluster.options.losses:
            at = f" with block {left[0]}" if left else " before it opened the stage"
            raise hp.errors.ArtifactError(
                f"{problem}{at} ({times} times so far); check the memory, then run the same command to resume"
            )
        self.context.progress.note(f"{problem}; other actors take over its {len(left)} blocks")


@contextmanager
def _at_work(
    cluster: Cluster, context: hp.stages.StageContext[hp.stages.StageSpec], blocks: hp.stage_work.StageBlocks
) -> Iterator[Foreman]:
    """Yield the stage with its actors, which are killed after the block."""
    done, total = sum(blocks.sizes[number] for number in blocks.finished()), sum(blocks.sizes)
    with context.progress.task(f"{context.name} by ray", total, blocks.unit, done) as task:
        foreman = Foreman(cluster, context, blocks, task)
        try:
            yield foreman
        finally:
            with suppress(RayError):
                for member in list(foreman.members):
                    foreman.dismiss(member)


def make(options: Ray, context: hp.stages.StageContext[hp.stages.StageSpec]) -> Mapping[str, Any]:
    """Run a stage on a cluster, or in this process if it reads local files. Raises the errors of `Ray.make`."""
    if (context.device or "").startswith("cuda:"):
        raise hp.errors.UsageError(
            f"{{device}} {context.device}: Ray chooses the GPU of each actor; use cuda, or leave it unset", "device"
        )
    context.keep_only(hp.stores.SCRATCH)
    blocks = context.spec.make(replace(context, device="cpu"))
    if not blocks.travels:
        context.progress.note(f"{context.name}: reads local files, so it runs on this machine")
        return hp.stages.Local().make(context)
    for left in reversed(range(options.losses)):  # a cluster that was started here is restarted if it is lost
        if len(blocks.finished()) == len(blocks.sizes):
            break
        try:
            with joined(options) as cluster, _at_work(cluster, context, blocks) as foreman:
                foreman.make()
            break
        except ClusterLost as error:
            if not error.started or not left:
                raise
            context.progress.note(f"{context.name}: the Ray processes on this machine have stopped; restarting them")
    chosen = choices_in(choices_file(context.folder))
    choices = {subject.removeprefix(hp.stores.CHOICE): way for subject, way in chosen.items()}
    return {**blocks.finish(), **({"choices": choices} if choices else {})}
