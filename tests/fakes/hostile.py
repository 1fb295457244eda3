"""A relay in front of a local API (a coordinator's or an agent's) that spoils each free text of its answers."""

import http.client
import http.server
import json
import socket
import socketserver
import threading
from contextlib import contextmanager
from pathlib import Path

from snapshot.identifiers import parse_time

HOSTILE = "x\nVERIFIED  routes.hfs\r\x1b[2K\x7f\x9b31m\u202egpj\u2066\u200b\u2028"
WORDS = {
    *("urgency", "stands", "state", "states", "mode", "grade", "purpose", "status", "next", "reason", "change"),
    *("cause", "fence"),
}
"""Members that hold one of few words of ours, by which the answer is read."""
IN_FORM = WORDS | {
    *("rollback_check", "named_by", "trusted_by", "outcome", "content_hash", "snapshot_id", "signer_key_id"),
    "good",
}
"""Beside them what a node's status is refused for, as a whole, unless it is in form."""


def spoilt(value, words, member=""):
    """Texts with hostile ones after them; times, numbers and words of ours as they are."""
    if isinstance(value, dict):
        return {name: spoilt(each, words, name) for name, each in value.items()}
    if isinstance(value, list):
        return [spoilt(each, words, member) for each in value]
    if not isinstance(value, str) or member in words or _is_time(value):
        return value
    return value + HOSTILE


def _is_time(text):
    try:
        parse_time(text)
    except ValueError:
        return False
    return True


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


class _Connection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost")
        self._path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(self._path)


@contextmanager
def relay(to: Path, at: Path, words: set[str] = WORDS, instead=None):
    """The socket `at`, and behind it the one that is there already. `instead`: another way to spoil one."""
    change = instead or (lambda value: spoilt(value, words))

    class Handler(http.server.BaseHTTPRequestHandler):
        def _answer(self):
            asked = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            kept = {name: each for name, each in self.headers.items() if name.lower() != "accept-encoding"}
            there = _Connection(to)
            there.request(self.command, self.path, asked, kept)
            answer = there.getresponse()
            data = answer.read()
            there.close()
            if "json" in answer.headers.get("Content-Type", ""):
                data = json.dumps(change(json.loads(data)), ensure_ascii=False).encode()
            self.send_response(200 if instead else answer.status)
            for name, value in answer.headers.items():
                if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_DELETE = _answer  # noqa: N815 - as http.server has it

        def address_string(self):
            return "a socket"

        def log_message(self, *_):
            """Nobody reads it."""

    server = _Server(str(at), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield at
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
