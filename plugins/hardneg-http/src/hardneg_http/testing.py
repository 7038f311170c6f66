"""A small HTTP server for testing clients. It records requests and fails on demand."""

import json
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, TypeVar


class ServedModel(ABC):
    """A model on the test server, with the requests that it received.

    path: its URL path. requests, keys: the requests and their `Authorization` headers, in order. fault: a function of a
    request's number, from 0, and handler; to answer itself, it calls the handler's `reply` and returns True. pause:
    seconds before each answer. together: number of concurrent requests that the first answers wait for.
    """

    path: ClassVar[str]

    def __init__(self) -> None:
        self.url, self.pause, self.together = "", 0.0, 0
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.under_way = self.most_under_way = 0
        self.fault: Callable[[int, Any], bool] = lambda number, handler: False
        self.changed = threading.Condition()

    @abstractmethod
    def answer(self, request: dict[str, Any]) -> Any:
        """Return the answer to a request, to be sent as JSON or, if it is bytes, unchanged."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    served: ServedModel

    def log_message(self, *_: object) -> None:
        """Log nothing."""

    def do_GET(self) -> None:
        """Reply with an empty list of models."""
        self.reply(200, {"data": []})

    def do_POST(self) -> None:
        """Record the request; reply with the model's answer or its fault, or 404 for another path."""
        served, request = self.served, json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with served.changed:
            number = len(served.requests)
            served.requests.append(request)
            served.keys.append(self.headers.get("Authorization"))
            served.under_way += 1
            served.most_under_way = max(served.most_under_way, served.under_way)
            served.changed.notify_all()
            served.changed.wait_for(lambda: served.most_under_way >= served.together, 60.0)
        time.sleep(served.pause)
        with served.changed:
            served.under_way -= 1
        if self.path != served.path:
            self.reply(404, {"error": {"message": "no such path"}})
        elif not served.fault(number, self):
            self.reply(200, served.answer(request))

    def reply(self, status: int, content: Any, **headers: str) -> None:
        """Send bytes unchanged, anything else as JSON; `Retry_After` is the header Retry-After."""
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)


class _Server(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """Ignore a client that was killed or has given up."""


Model = TypeVar("Model", bound=ServedModel)


@contextmanager
def serving(served: Model) -> Iterator[Model]:
    """Serve a model in threads of this process during a `with` block, and yield it with its `url` set."""
    server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"served": served}))
    served.url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
