#!/usr/bin/env python3
"""A stand-in for the intranet: it answers every request with where it runs."""

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    answer = b""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(self.answer)))
        self.end_headers()
        self.wfile.write(self.answer)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - as http.server calls it
        """Nothing."""


def main() -> None:
    port, answer = sys.argv[1:]
    Handler.answer = answer.encode() + b"\n"
    ThreadingHTTPServer(("127.0.0.1", int(port)), Handler).serve_forever()


if __name__ == "__main__":
    main()
