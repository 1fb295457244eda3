#!/usr/bin/python3
"""Says $GREETING at http://127.0.0.1:$PORT/. Knows nothing of Holdfast, and reads its environment when it starts.

greeter.py --check FILE    exit 1 and a sentence where it could not start with these variables, an object in JSON
"""

import json
import os
import sys
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path


class Greeting(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        said = f"{os.environ['GREETING']}\n".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)


def main() -> None:
    if sys.argv[1:2] == ["--check"]:
        place(json.loads(Path(sys.argv[2]).read_bytes()))
        return
    with HTTPServer(place(os.environ), Greeting) as server:
        server.serve_forever()


def place(variables: Mapping[str, object]) -> tuple[str, int]:
    """Where it listens."""
    port = str(variables.get("PORT"))
    if "GREETING" not in variables or not port.isdecimal() or not 1024 <= int(port) < 65536:
        sys.exit(f"greeter.py: GREETING and a PORT of 1024 to 65535 are needed, and PORT is {port}")
    return "127.0.0.1", int(port)


if __name__ == "__main__":
    main()
