"""What `hardneg doctor` measures of this machine, and what it tells of it."""

from pathlib import Path
from typing import TYPE_CHECKING

from hardneg.cli.console import bars, say
from hardneg.records.wording import size

if TYPE_CHECKING:
    pass


def measure_rates(store: Path) -> None:
    """Measures what plans are made from, as far as it is not kept yet; on stderr what could not be measured."""
    from hardneg.api.measuring.measurements import measure
    from hardneg.costs.machine import this_device

    device = this_device()
    folder = next(folder for folder in (store, *store.parents) if folder.is_dir())
    for problem in measure(device, None if device.gpu else "cpu", folder, bars()):
        say(problem, err=True)


def forget_rates() -> None:
    """Forgets all of it."""
    from hardneg.costs import rate_files as files

    files.forget_rates()


def measured_rates() -> tuple[str, str] | None:
    """What was measured, and on what and when; None where nothing was."""
    from hardneg.costs.machine import this_device
    from hardneg.costs.rate_files import measured

    device = this_device()
    rates_file = measured(device)
    if rates_file is None:
        return None
    from hardneg.api.measuring.measurements import PIECES, has

    missing = [name for name in PIECES if not has(rates_file, name)]
    left = f"; not yet {', '.join(missing)}: `hardneg doctor --measure` goes on" if missing else ""
    rates = rates_file.rates("measured")
    parts = [
        f"{step} {pace.tokens:,.0f} tokens/s ({f'{pace.layers} layers' if pace.layers else 'a table'} of {pace.hidden})"
        for step in ("encode", "train")
        for pace in getattr(rates_file, step)
    ]
    parts += [f"search {rates_file.search.scores:,.0f} scores/s"] if rates_file.search else []
    parts += [f"tokenise {rates_file.tokenise:,.0f} tokens/s"] if rates_file.tokenise else []
    parts += [f"{name} {size(value)}/s" for name in ("read", "write") if (value := getattr(rates_file, name))]
    return ", ".join(parts), f"of {rates.device} on {rates.date}; `hardneg recipe plan` is made from them{left}"
