"""The actors of a stage: hired while there is work for them, given blocks, and replaced when they are lost."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.exceptions import ObjectLostError, RayActorError

from hardneg_ray.cluster import Cluster, Needs
from hardneg_ray.worker import Assignment, BlockActor, Opened, Report

_PAUSE = 1.0


@dataclass(eq=False)
class Member:
    """An actor; waited: what of it comes next: that it has opened, or a block. numbers: what it is still to make."""

    actor: Any
    waited: Any
    numbers: list[int] = field(default_factory=list)
    opened: Opened | None = None
    working: bool = False


@dataclass
class Crew:
    """All actors of one stage."""

    cluster: Cluster
    assignment: Assignment
    needs: Needs
    members: list[Member] = field(default_factory=list)

    @property
    def ready(self) -> list[Member]:
        """Those that have opened the stage."""
        return [member for member in self.members if member.opened]

    def wanted(self, blocks: int) -> int:
        """How many actors so many blocks are given to; where the cluster may grow, one waits for a new machine."""
        actors = self.cluster.options.actors
        most = self.cluster.room(self.needs) + 1 if actors == "auto" else actors
        return min(most, blocks)

    def hire(self, count: int) -> None:
        """Starts actors until there are so many."""
        needs = ray.remote(BlockActor).options(num_cpus=self.needs.num_cpus, num_gpus=self.needs.num_gpus)
        for _ in range(len(self.members), count):
            actor = needs.remote(self.assignment)
            self.members.append(Member(actor, actor.open.remote()))

    def give(self, member: Member, numbers: Sequence[int]) -> None:
        """Has an idle member make these blocks."""
        member.numbers, member.working = list(numbers), True
        member.waited = member.actor.make.options(num_returns="streaming").remote(numbers)

    def dismiss(self, member: Member) -> None:
        """Ends an actor; should it still be alive, it writes what others write."""
        self.members.remove(member)
        ray.kill(member.actor)

    def dismiss_all(self) -> None:
        """Ends all of them."""
        members, self.members = self.members, []
        for member in members:
            ray.kill(member.actor)

    def anyone_there(self) -> bool:
        """Whether there was room for any of them."""
        present = [member.actor.__ray_ready__.remote() for member in self.members]
        return bool(present and ray.wait(present, num_returns=1, timeout=_PAUSE)[0])

    def reports(self, seconds: float) -> Iterator[tuple[Member, Report | None]]:
        """What comes within some seconds: reports, or None where a member has made all that it was given.

        Raises:
            Lost: an actor is gone.
        """
        waiting: Mapping[Any, Member] = {member.waited: member for member in self.members if member.waited is not None}
        if not waiting:
            return
        done, _ = ray.wait(list(waiting), num_returns=1, timeout=seconds, fetch_local=False)
        for waited in done:
            yield waiting[waited], self._read(waiting[waited])

    def _read(self, member: Member) -> Report | None:
        try:
            if not member.working:
                report: Report = ray.get(member.waited)
                member.waited = None
                return report
            return ray.get(next(member.waited))  # type: ignore[no-any-return]
        except StopIteration:
            member.working, member.waited = False, None
            return None
        except (RayActorError, ObjectLostError) as error:  # the second: what it made lay on a machine that is gone
            raise Lost(member) from error


class Lost(Exception):
    """An actor is gone, or cannot be reached."""

    def __init__(self, member: Member) -> None:
        super().__init__()
        self.member = member
