"""`hardneg push`: upload a model, an index or negatives to the Hugging Face hub."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import typer

from hardneg.plugin import errors, records, sessions, terminal
from hardneg_hub.prepare import UPLOADS, prepare
from hardneg_hub.pushing import Push

_SHOWN = 40
_FLAGS = {"wanted": "--what", "encoder": "--model"}


@terminal.flags_named(lambda name: _FLAGS.get(name, f"--{name}"))
def push(
    folder: Path = typer.Argument(help="A run folder, a folder of a model, index or negatives, or a negatives file."),
    repo: str = typer.Option(..., "--repo", help="The repository, such as org/name."),
    what: str | None = typer.Option(
        None, help="From a run folder: model (default), index or negatives.", autocompletion=lambda: [*UPLOADS]
    ),
    model: str = typer.Option("", help="For an index: the repository of the model that encoded it, for the card."),
    public: bool = typer.Option(False, "--public", help="Make the repository public, after asking; default: private."),
    yes: bool = typer.Option(False, "--yes", help="Do not ask for confirmation."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Show the files and the card without contacting the hub."),
    message: str = typer.Option("", help="The commit message."),
    store: str | None = typer.Option(None, help="Artifact store; default $HARDNEG_STORE, else ~/.cache/hardneg/store."),
) -> None:
    """Upload a model, an index or negatives to the Hugging Face hub, with a card; private content is refused.

    The token comes from `hf auth login` or HF_TOKEN. All files go in one commit.

    Example: hardneg push runs/star-passage-demo --repo org/name --dry-run

    Example: hardneg push runs/star-passage-demo --repo org/name
    """
    with TemporaryDirectory() as scratch:
        upload = prepare(folder, repo, sessions.usual_store(store), Path(scratch), what, model)
        sizes = upload.sizes
        terminal.say(
            f"{upload.upload_type}: {records.counted(len(sizes), 'file')}, {records.size(sum(sizes.values()))}"
        )
        for path, size in [*sizes.items()][:_SHOWN]:
            terminal.say(f"  {records.size(size):>9}  {path}")
        if (more := len(sizes) - _SHOWN) > 0:
            terminal.say(f"  and {records.counted(more, 'more file')}")
        for note in upload.notes:
            terminal.say(f"  {note}")
        if dry_run:
            terminal.say(f"\n{upload.card}")
            terminal.say("dry run: nothing was sent")
            return
        ready = Push.planned(upload, repo, public, message)
        state = "new" if ready.there is None else "exists, public" if ready.there else "exists, private"
        terminal.say(f"{upload.repo_type} {ready.name}: {state}")
        if ready.opens and not yes:
            _ask(f"{ready.name} {'is' if ready.there else 'will be'} public, so the pushed files will be public")
        done = ready.send()
    outcome = f"commit {done.commit}" if done.files else "nothing changed, no commit made"
    terminal.say(f"{done.address}: {outcome}{'; public now' if done.opened else ''}")


def _ask(question: str) -> None:
    """Ask for confirmation. Raises UsageError if it is not given."""
    if not sys.stdin.isatty():
        raise errors.UsageError(f"{question}; pass --yes")
    terminal.say(f"{question}. Type yes to push: ", err=True, nl=False)
    if sys.stdin.readline().strip().lower() != "yes":
        raise errors.UsageError("not pushed")
