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
    from hardneg.doors.hub.push import Push
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
    from hardneg.doors.hub.negatives_upload import Rows
    from hardneg.doors.hub.preparing import Wanted, prepare
    from hardneg.doors.hub.push import planned

    wanted = Wanted(what, model, Rows(form, count))
    with TemporaryDirectory() as scratch:
        upload = prepare(folder, repo, wanted, open_store(store), Path(scratch))
        _show(upload)
        if dry_run:
            say(f"\n{upload.card}")
            say("nothing was sent: a dry run")
            return
        planned_push = planned(upload, repo, public, revision, message)
        _show_changes(planned_push)
        if planned_push.opens and not planned_push.idle and not yes:
            _ask(planned_push)
        done = planned_push.send(bars=sys.stderr.isatty())
    outcome = f"commit {done.commit}" if done.files else "nothing has changed, no commit was made"
    say(f"{done.address}: {outcome}{'; public now' if done.opened else ''}")


def _show(upload: "Upload") -> None:
    say(f"{upload.upload_type}: {counted(len(upload.files), 'file')}, {size(upload.size)}")
    for line in aligned((size(file.size).rjust(9), file.path) for file in upload.files[:_SHOWN]):
        say(f"  {line}")
    if (more := len(upload.files) - _SHOWN) > 0:
        say(f"  and {counted(more, 'file')} more")
    for note in upload.notes:
        say(f"  {note}")


def _show_changes(planned_push: "Push") -> None:
    there, changes = planned_push.repository, planned_push.changes
    seen = "public" if there.public else "private"
    state = f"there, {seen}" if there.exists else f"new, {'public' if planned_push.public else 'private'}"
    branch = f", branch {there.revision}{' (new)' if there.missing_branch else ''}"
    say(f"{there.type} {there.name}{branch}: {state}")
    by_change = {"new": changes.new, "changed": changes.changed, "as there": changes.same}
    say("  " + ", ".join(f"{len(files)} {name}" for name, files in by_change.items()))
    if changes.changed:
        say(f"  changed: {', '.join(file.path for file in changes.changed)}")
    if changes.others:
        say(f"  stay there, no part of this push: {', '.join(changes.others[:_SHOWN])}")


def _ask(planned_push: "Push") -> None:
    """Has a person type yes. Raises UsageError where nobody does."""
    name = planned_push.repository.name
    is_so = "is public" if planned_push.repository.public else "will be public"
    if not sys.stdin.isatty():
        raise UsageError(f"{name} {is_so}: everybody reads what is pushed; pass --yes")
    say(f"{name} {is_so}: everybody reads what is pushed. Type yes to push: ", err=True, nl=False)
    if sys.stdin.readline().strip().lower() != "yes":
        raise UsageError("not pushed")
