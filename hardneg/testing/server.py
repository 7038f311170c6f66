"""A small HTTP server for tests of plugins that ask one: it keeps what it was asked, and its faults are asked for."""

import json
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, TypeVar

_PATIENCE = 60.0  # seconds


class ServedModel(ABC):
    """What a server was asked, what it says, and what is wrong with it.

    path: where it is asked. requests, keys: what came, and in which `Authorization`, in order. fault: gets the number
    of a request and its handler, whose `reply` answers; True: it has answered. pause: seconds before each answer.
    together: the first answers wait until so many requests are under way.
    """

    path: ClassVar[str]

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.under_way = self.most_under_way = 0
        self.pause, self.together = 0.0, 0
        self.fault: Callable[[int, Any], bool] = lambda number, handler: False
        self.changed = threading.Condition()

    @abstractmethod
    def answer(self, request: dict[str, Any]) -> Any:
        """What it says to a request, as JSON can hold it."""

    def take(self, request: dict[str, Any], key: str | None) -> int:
        """Keeps a request, and lets it wait. Returns its number."""
        with self.changed:
            number = len(self.requests)
            self.requests.append(request)
            self.keys.append(key)
            self.under_way += 1
            self.most_under_way = max(self.most_under_way, self.under_way)
            self.changed.notify_all()
            self.changed.wait_for(lambda: self.most_under_way >= self.together, _PATIENCE)
        time.sleep(self.pause)
        with self.changed:
            self.under_way -= 1
        return number


class RequestHandler(BaseHTTPRequestHandler):
    """Answers for a served model."""

    protocol_version = "HTTP/1.1"
    served: ServedModel

    def log_message(self, *_: object) -> None:
        """Nothing."""

    def do_GET(self) -> None:
        """An empty list of models."""
        self.reply(200, {"data": []})

    def do_POST(self) -> None:
        """The model's answer, or the fault that was asked for."""
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        number = self.served.take(request, self.headers.get("Authorization"))
        if self.path != self.served.path:
            self.reply(404, {"error": {"message": "no such path"}})
        elif not self.served.fault(number, self):
            self.reply(200, self.served.answer(request))

    def reply(self, status: int, content: Any, **headers: str) -> None:
        """Sends bytes as they are, and anything else as JSON; `Retry_After` is the header Retry-After."""
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)


class _Server(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """A client that was killed, or has given up, waits for no answer."""


Model = TypeVar("Model", bound=ServedModel)


@contextmanager
def serving(served: Model) -> Iterator[Model]:
    """A server in threads of this process, until the block ends; its address is in `url`."""
    server = _Server(("127.0.0.1", 0), type("Handler", (RequestHandler,), {"served": served}))
    served.url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
