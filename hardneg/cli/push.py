"""`hardneg push`: a model, an index, negatives or runs to the Hugging Face hub."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import typer

from hardneg.cli import completion
from hardneg.cli.console import aligned, say
from hardneg.cli.options import STORE, flags_but, flags_named, open_store
from hardneg.records.errors import UsageError
from hardneg.records.wording import counted, size

if TYPE_CHECKING:
    from hardneg.doors.hub.upload import Upload

_SHOWN = 40


@flags_named(flags_but(wanted="--what", encoder="--model"))
def push(
    folder: Path = typer.Argument(help="A run folder, or that of a model, an index or negatives; or a file of these."),
    repo: str = typer.Option(..., "--repo", help="The repository, such as org/name."),
    what: str | None = typer.Option(
        None,
        help="From a run folder: model, index, negatives or runs; default model.",
        autocompletion=completion.words("model", "index", "negatives", "runs"),
    ),
    form: str = typer.Option(
        "hardneg",
        help="For negatives: ids (hardneg), or texts in triplet, n-tuple, labeled-list.",
        autocompletion=completion.words("hardneg", "triplet", "n-tuple", "labeled-list"),
    ),
    count: int | None = typer.Option(None, min=1, help="For negatives with texts: how many for each query."),
    model: str = typer.Option("", help="For an index: the repository of the model that encoded it, for the card."),
    public: bool = typer.Option(False, "--public", help="Make it readable by everybody; asks first. Default: private."),
    yes: bool = typer.Option(False, "--yes", help="Do not ask for confirmation."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Show files and card; send nothing, ask the hub nothing."),
    revision: str | None = typer.Option(None, help="The branch, created if missing; default main."),
    message: str = typer.Option("", help="The commit message."),
    store: Path | None = STORE,
) -> None:
    """Upload a model, an index, negatives or runs to the Hugging Face hub, with a card; nothing private goes along.

    The token is that of `hf auth login`, or HF_TOKEN. All files go in one commit.

    Example: hardneg push runs/star-passage-demo --repo org/name --dry-run

    Example: hardneg push runs/star-passage-demo --repo org/name
    """
    from hardneg.doors.hub.prepare import Wanted, prepare
    from hardneg.doors.hub.push import Push

    with TemporaryDirectory() as scratch:
        upload = prepare(folder, repo, Wanted(what, model, form, count), open_store(store), Path(scratch))
        _show(upload)
        if dry_run:
            say(f"\n{upload.card}")
            say("nothing was sent: a dry run")
            return
        ready = Push.planned(upload, repo, public, revision, message)
        state = "new" if ready.there is None else "there, public" if ready.there else "there, private"
        say(f"{upload.repo_type} {ready.name}{f', branch {revision}' if revision else ''}: {state}")
        if ready.opens and not yes:
            _ask(f"{ready.name} {'is' if ready.there else 'will be'} public: everybody reads what is pushed")
        done = ready.send()
    outcome = f"commit {done.commit}" if done.files else "nothing has changed, no commit was made"
    say(f"{done.address}: {outcome}{'; public now' if done.opened else ''}")


def _show(upload: "Upload") -> None:
    sizes = upload.sizes
    say(f"{upload.upload_type}: {counted(len(sizes), 'file')}, {size(sum(sizes.values()))}")
    for line in aligned((size(each).rjust(9), path) for path, each in [*sizes.items()][:_SHOWN]):
        say(f"  {line}")
    if (more := len(sizes) - _SHOWN) > 0:
        say(f"  and {counted(more, 'file')} more")
    for note in upload.notes:
        say(f"  {note}")


def _ask(question: str) -> None:
    """Has a person type yes. Raises UsageError where nobody does."""
    if not sys.stdin.isatty():
        raise UsageError(f"{question}; pass --yes")
    say(f"{question}. Type yes to push: ", err=True, nl=False)
    if sys.stdin.readline().strip().lower() != "yes":
        raise UsageError("not pushed")
