"""Errors of the hub in one line that holds no token."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from hardneg.records.errors import HardnegError, HubError

TOKEN = re.compile(r"hf_[A-Za-z0-9]{8,}|(?<=[Bb]earer )\S+")
_LONGEST = 200
_ADVICE = {
    400: "refuses what was sent: look at the card's metadata and the names of files",
    401: "does not know the token: `hf auth login`, or set HF_TOKEN to one that is valid",
    402: "wants a paid plan for this",
    403: "does not let this token write there: take a token with the role `write`, and a name or organisation of yours",
    404: "has no such repository or branch, or does not show it to this token: check {repo} and the branch",
    409: "has something of that name already, or is changing it just now: try again, or give another {repo}",
    412: "has had another commit in the meantime: look at it, then push again",
    413: "finds a file or the commit too large: push the index in shards, or ask for a higher limit",
    429: "has had too many requests: wait some minutes, then push again",
}


@contextmanager
def explained(name: str) -> Iterator[None]:
    """Turn errors of the hub's client into one clear line.

    Raises:
        HubError: the hub refused, is not reached, or did not answer as a hub does.
    """
    try:
        yield
    except HardnegError:
        raise
    except Exception as error:  # the hub's client lets errors of several libraries through
        raise HubError(_explanation(name, error), "repo") from None


def without_token(text: str) -> str:
    """The text in one line, cut, with each token in it as `[token]`."""
    from huggingface_hub import get_token

    own = get_token()
    text = TOKEN.sub("[token]", text.replace(own, "[token]") if own else text)
    return " ".join(text.split())[:_LONGEST]


def _explanation(name: str, error: Exception) -> str:
    from huggingface_hub import constants
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    known = _cause(error, HfHubHTTPError)
    if isinstance(known, HfHubHTTPError):
        status = known.response.status_code
        said = without_token(known.server_message or "")
        advice = _ADVICE.get(status, "cannot do it now: try again later" if status >= 500 else "refuses")
        return f"{name}: the hub {advice} ({status}{f': {said}' if said else ''})"
    if _cause(error, OfflineModeIsEnabled):
        return "HF_HUB_OFFLINE is set: take it out of the environment to push"
    if _cause(error, OSError) or "connect" in f"{type(error).__name__} {error}".lower():
        return f"{name}: {constants.ENDPOINT} cannot be reached: go online, then push again; what was sent is not lost"
    return f"{name}: the push did not end ({type(error).__name__}: {without_token(str(error))}): push again"


def _cause(error: BaseException | None, error_type: type[BaseException]) -> BaseException | None:
    """The first of an error and its causes that is of a kind."""
    while error is not None and not isinstance(error, error_type):
        error = error.__cause__ or error.__context__
    return error
