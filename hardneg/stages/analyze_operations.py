"""What the operations of a recipe's stages took."""

from typing import Any

from hardneg.analysis.operations import operations
from hardneg.stages.context import StageContext


def operations_found(work: StageContext[Any]) -> list[dict[str, Any]]:
    """The operations of each stage that `operations` names, by what its manifest says."""
    named = work.inputs_of("operations")
    stages = {label: (str(source.spec.kind), source.facts) for label, source in named.items() if source.spec}
    return [operation.to_json() for operation in operations(stages)]
