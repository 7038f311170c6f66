"""A small server of /v1/embeddings, whose faults are asked for."""

import base64
import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

DIMENSION = 8


def vector(text: str, salt: str = "") -> np.ndarray:
    """float32 [8], by the text."""
    seed = int.from_bytes(hashlib.sha256((salt + text).encode()).digest()[:4], "little")
    return np.random.default_rng(seed).standard_normal(DIMENSION).astype(np.float32)


class Served:
    """What the server was asked, and what is wrong with it.

    fault: gets the number of a request and its handler; True: it has answered. change: gets the rows of an answer.
    """

    def __init__(self) -> None:
        self.url = ""
        self.salt = ""
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.under_way = self.most_under_way = 0
        self.pause = 0.0
        self.fault: Callable[[int, Any], bool] = lambda number, handler: False
        self.change: Callable[[list[dict[str, Any]]], Any] = lambda rows: rows
        self.lock = threading.Lock()

    @property
    def texts(self) -> list[str]:
        return [text for request in self.requests for text in request["input"]]

    def rows(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        found = [vector(text, self.salt)[: request.get("dimensions")] for text in request["input"]]
        as_text = request["encoding_format"] == "base64"
        values = [base64.b64encode(part.tobytes()).decode() if as_text else part.tolist() for part in found]
        return [{"index": place, "embedding": value} for place, value in enumerate(values)]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    served: Served

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self.answer(200, {"data": []})

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
        if self.path != "/v1/embeddings":
            self.answer(404, {"error": {"message": "no such path"}})
        elif not served.fault(number, self):
            self.answer(200, {"data": served.change(served.rows(request))})

    def answer(self, status: int, content: Any, **headers: str) -> None:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def serving() -> Iterator[Served]:
    """A server in threads of this process, until the block ends."""
    served = Served()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"served": served}))
    served.url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
