"""What a plan will take: passages, disk, memory and time, from counts and a few rates; rough, and told as such."""

from dataclasses import dataclass

from hardneg.artifacts import Store
from hardneg.machine import Machine, this_machine
from hardneg.models.shape import model_shape
from hardneg.recipe.plan import Plan, Step, cached
from hardneg.recipe.sizes import networks, plan_sizes, step_sizes
from hardneg.registry import plugin_errors
from hardneg.stages.spec import Row


@dataclass(frozen=True)
class Estimate:
    """One step.

    items: how many of `unit` there are to go through. disk, memory: bytes, memory of all processes together.
    gpu_memory: bytes on each GPU; 0 where there is none. seconds: 0 for what is in the store; NaN where the GPU is not
    known.
    """

    step: Step
    cached: bool
    items: int
    unit: str
    disk: int
    memory: int
    gpu_memory: int
    seconds: float


def estimate(plan: Plan, store: Store, until: str | None = None, machine: Machine | None = None) -> list[Estimate]:
    """One estimate a step, in the order in which they run; `machine` is by default this one, with one process."""
    where = machine or this_machine()
    sizes, shapes = plan_sizes(plan, store, where), {name: model_shape(spec) for name, spec in networks(plan)}
    steps = list(plan.until(until))
    with plugin_errors(step.spec for step in steps):
        rows = [step.spec.estimate(step_sizes(sizes, plan, step, shapes)) for step in steps]
    return [_estimate(step, row, where, store) for step, row in zip(steps, rows, strict=True)]


def _estimate(step: Step, row: Row, machine: Machine, store: Store) -> Estimate:
    done = cached(step, store) is not None
    processes = machine.processes if row.held else 1
    own, networks = processes * row.memory, processes * row.held + row.shared
    memory, gpu = (own, -(-networks // processes)) if machine.gpu else (own + networks, 0)
    seconds = 0.0 if done else row.seconds
    return Estimate(step, done, row.items, row.unit, row.disk, memory, gpu, seconds)
