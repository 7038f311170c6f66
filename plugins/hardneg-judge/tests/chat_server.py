"""A small server of /v1/chat/completions, whose answers depend on the text and whose faults are asked for."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def shared_words(message: str) -> str:
    """Yes, where a passage shares a word with the query beyond the small ones."""
    query, _, rest = message.partition("\n")
    passage = rest.partition("\n\nWould")[0]
    return "yes" if {*words(query)} & {*words(passage)} else "no"


def words(text: str) -> list[str]:
    found = (word.strip(".,:?[]") for word in text.lower().split())
    return [word for word in found if len(word) > 3 and word not in ("query", "passage", "passages")]


class Served:
    """What the server was asked, what it says, and what is wrong with it.

    answer: what it says to a message. fault: gets the number of a request and its handler; True: it has answered.
    pause: seconds before each answer.
    """

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.under_way = self.most_under_way = 0
        self.pause = 0.0
        self.answer: Callable[[str], Any] = shared_words
        self.usage: Any = {"prompt_tokens": 100, "completion_tokens": 2}
        self.fault: Callable[[int, Any], bool] = lambda number, handler: False
        self.lock = threading.Lock()

    @property
    def messages(self) -> list[str]:
        return [request["messages"][0]["content"] for request in self.requests]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    served: Served

    def log_message(self, *_: object) -> None:
        pass

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        served = self.served
        with served.lock:
            number = len(served.requests)
            served.requests.append(request)
            served.keys.append(self.headers.get("Authorization"))
            served.under_way += 1
            served.most_under_way = max(served.most_under_way, served.under_way)
        time.sleep(served.pause)
        with served.lock:
            served.under_way -= 1
        if self.path != "/v1/chat/completions":
            self.reply(404, {"error": {"message": "no such path"}})
        elif not served.fault(number, self):
            said = served.answer(request["messages"][0]["content"])
            self.reply(200, {"choices": [{"message": {"content": said}}], "usage": served.usage})

    def reply(self, status: int, content: Any, **headers: str) -> None:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)


class _Server(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """A client that was killed waits for no answer."""


@contextmanager
def serving() -> Iterator[Served]:
    """A server in threads of this process, until the block ends."""
    served = Served()
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
