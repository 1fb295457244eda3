#!/usr/bin/env python3
"""A small HTTP gateway, for machines without nginx: as much of one as the demonstration needs, and no more.

    python_gateway.py --listen HOST:PORT --home DIR    serves by DIR/gateway.conf, read again on SIGHUP
    python_gateway.py --check FILE                     exit 1 and a sentence where the file is not good

It answers 404 for what no route takes, 503 for a service that is nowhere, 502 for one that does not answer. A file that
is not good is refused, and the one before it stays. Standard library only.
"""

import argparse
import http.client
import json
import os
import signal
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any

UPSTREAM_S = 5.0


class Table:
    """Where requests go: by host name, then by the longest beginning of the path."""

    def __init__(self, entries: list[dict[str, Any]]) -> None:
        # A host's own route goes before one that is for every host.
        self._entries = sorted(entries, key=lambda entry: (-len(entry["prefix"]), entry["host"] == ""))
        self._turn = count()

    @classmethod
    def read(cls, path: Path) -> "Table":
        """ValueError for what is no such file, or has two routes in one place."""
        entries = json.loads(path.read_bytes())
        places: dict[tuple[str, str], str] = {}
        for entry in entries:
            place = (entry["host"], entry["prefix"])
            if place in places:
                raise ValueError(f"duplicate location {place[1]!r} of {place[0]}: {places[place]}, {entry['route']}")
            places[place] = entry["route"]
        return cls(entries)

    def upstream(self, host: str, path: str) -> str | int:
        """host:port, in turn where there are several; or the status to answer with."""
        for entry in self._entries:
            if entry["host"] in (host, "") and path.startswith(entry["prefix"]):
                places = entry["upstreams"]
                return str(places[next(self._turn) % len(places)]) if places else 503
        return 404


class Gateway(ThreadingHTTPServer):
    daemon_threads = True
    table = Table([])


class Handler(BaseHTTPRequestHandler):
    server: Gateway

    def do_GET(self) -> None:
        host = (self.headers.get("Host") or "").partition(":")[0]
        found = self.server.table.upstream(host, self.path)
        if isinstance(found, int):
            self.send_error(found)
            return
        try:
            self._pass_on(found, host)
        except OSError:
            self.send_error(502)

    def _pass_on(self, upstream: str, host: str) -> None:
        connection = http.client.HTTPConnection(upstream, timeout=UPSTREAM_S)
        try:
            connection.request("GET", self.path, headers={"Host": host})
            answer = connection.getresponse()
            body = answer.read()
        finally:
            connection.close()
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.getheader("Content-Type") or "application/octet-stream")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - as http.server calls it
        """Nothing: the demonstration counts the requests itself."""


def main() -> None:
    arguments = _arguments()
    if arguments.check:
        try:
            Table.read(arguments.check)
        except (OSError, ValueError, KeyError, TypeError) as error:
            sys.exit(f"python_gateway: {error}")
        return
    host, _, port = arguments.listen.rpartition(":")
    server = Gateway((host, int(port)), Handler)
    configuration = arguments.home / "gateway.conf"

    def read_again(*_: object) -> None:
        try:
            server.table = Table.read(configuration)
        except (OSError, ValueError, KeyError, TypeError) as error:
            print(f"python_gateway: not read: {error}", file=sys.stderr, flush=True)

    signal.signal(signal.SIGHUP, read_again)
    read_again()
    (arguments.home / "gateway.pid").write_text(f"{os.getpid()}\n")
    server.serve_forever()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", type=Path)
    parser.add_argument("--listen", metavar="HOST:PORT")
    parser.add_argument("--home", type=Path)
    arguments = parser.parse_args()
    if not arguments.check and not (arguments.listen and arguments.home):
        parser.error("either --check, or --listen and --home")
    return arguments


if __name__ == "__main__":
    main()
