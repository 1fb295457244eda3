#!/usr/bin/env python3
"""The ingress gateway's configuration, made from the files that the agent leaves: for nginx, or for python_gateway.py.

    gateway.py check ...    before an activation: what is offered, in $HOLDFAST_STAGED; exit 1 keeps it out
    gateway.py apply ...    after it: what is active, in --files; the gateway is told to read it

The agent runs both (`validate` and `command` of a [[service]] in agent.toml). The gateway itself is started by whoever
starts services; it needs nothing of Holdfast but this one file. Standard library only.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PLAIN_PATH = re.compile(r"/[A-Za-z0-9._~/-]*")
PLAIN_HOST = re.compile(r"[a-z0-9.:-]+")
WEB = ("http", "any")
TAKEN_S = 10


class CannotRenderError(Exception):
    """What is configured cannot be written down for a gateway; the text names it."""


@dataclass(frozen=True)
class Entrance:
    """One route as a gateway sees it: a host name, where its paths begin, and where requests go."""

    route: str
    host: str
    prefix: str
    upstreams: tuple[str, ...]  # host:port; empty while the service is nowhere


def main() -> None:
    arguments = _arguments()
    files = Path(os.environ["HOLDFAST_STAGED"]) if arguments.what == "check" else arguments.files
    try:
        text = write(list(entrances(files)), arguments)
    except CannotRenderError as error:
        sys.exit(str(error))
    candidate = arguments.home / f"{arguments.what}.conf"
    candidate.write_text(text)
    _judged(candidate, arguments)
    if arguments.what == "apply":
        candidate.replace(arguments.home / "gateway.conf")
        _told(arguments.home / "gateway.pid")


# ---- reading


def entrances(files: Path) -> Iterator[Entrance]:
    """In the order of the routes' ids. `files` is laid out as /run/holdfast/active."""
    services = section(files, "service_assignment")
    for name, route in sorted(section(files, "route_policy").items()):
        if route["match"]["protocol"] in WEB:
            upstreams = tuple(_web_endpoints(services.get(route["service_id"], {})))
            for host in route["match"]["hosts"]:
                yield Entrance(name, host, route["match"]["path_prefix"] or "/", upstreams)


def section(files: Path, scope: str) -> dict[str, Any]:
    """A scope's entries by id: large maps come in several sections, one file each."""
    entries: dict[str, Any] = {}
    for path in sorted((files / scope).glob("*.json")):
        entries |= json.loads(path.read_bytes())
    return entries


def _web_endpoints(service: Mapping[str, Any]) -> Iterator[str]:
    for endpoint in service.get("endpoints", ()):
        if endpoint["exposed"] and endpoint["protocol"] == "http":
            yield f"{endpoint['host']}:{endpoint['port']}"


# ---- writing


def write(found: list[Entrance], arguments: argparse.Namespace) -> str:
    for each in found:
        _refuse_what_is_not_plain(each)
    if arguments.nginx:
        return nginx_configuration(found, arguments.home, arguments.listen)
    return json.dumps([vars(each) for each in found], indent=1)


def _refuse_what_is_not_plain(each: Entrance) -> None:
    """Nothing reaches a configuration file that could be read as more than a name or a path."""
    for text, form in ((each.host, PLAIN_HOST), (each.prefix, PLAIN_PATH)):
        if not form.fullmatch(text):
            raise CannotRenderError(f"route {each.route}: {text!r} is no plain host name or path")


def nginx_configuration(found: list[Entrance], home: Path, listen: str) -> str:
    upstreams = {f"{each.route}.{each.host}": each.upstreams for each in found if each.upstreams}
    temporary = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    lines = [
        f"pid {home}/gateway.pid;",
        f"error_log {home}/error.log;",
        "worker_processes 1;",
        "events { worker_connections 512; }",
        "http {",
        "  access_log off;",
        "  server_names_hash_bucket_size 128;",
        *(f"  {name}_temp_path {home}/{name};" for name in temporary),
        *(f"  upstream {name} {{ {_servers(places)} }}" for name, places in upstreams.items()),
        f"  server {{ listen {listen} default_server; return 404; }}",
        *(line for host in sorted({each.host for each in found}) for line in _server(host, found, listen)),
        "}",
    ]
    return "\n".join(lines) + "\n"


def _servers(places: tuple[str, ...]) -> str:
    return " ".join(f"server {place};" for place in places)


def _server(host: str, found: list[Entrance], listen: str) -> Iterator[str]:
    yield f"  server {{ listen {listen}; server_name {host};"
    for each in found:
        if each.host == host:
            to = f"proxy_pass http://{each.route}.{host};" if each.upstreams else "return 503;"
            yield f"    location {each.prefix} {{ proxy_set_header Host $host; {to} }}"
    yield "  }"


# ---- the gateway itself


def _judged(candidate: Path, arguments: argparse.Namespace) -> None:
    """By the gateway's own program; what it says of a bad one goes into the agent's journal and to the coordinator."""
    if arguments.nginx:
        command = [arguments.nginx, "-t", "-q", "-c", str(candidate), "-p", str(arguments.home), "-e", "stderr"]
    else:
        command = [sys.executable, str(arguments.python_gateway), "--check", str(candidate)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit((done.stderr or done.stdout).strip())


def _told(pid_file: Path) -> None:
    """Returns when the new file is in force: until then nginx's former workers may answer from the old one."""
    try:
        gateway = int(pid_file.read_text())
        former = _workers(gateway)
        os.kill(gateway, signal.SIGHUP)
    except (OSError, ValueError) as error:
        sys.exit(f"the gateway is not running: {error}")
    end = time.monotonic() + TAKEN_S
    while any(map(_still_answers, former)):
        if time.monotonic() > end:
            sys.exit(f"the gateway has not taken its new file in {TAKEN_S} s")
        time.sleep(0.02)


def _workers(gateway: int) -> list[str]:
    """None where another account's processes cannot be seen."""
    try:
        return Path(f"/proc/{gateway}/task/{gateway}/children").read_text().split()
    except OSError:
        return []


def _still_answers(worker: str) -> bool:
    """A worker that takes no more connections says so in its title."""
    try:
        title = Path(f"/proc/{worker}/cmdline").read_bytes()
    except OSError:
        return False
    return bool(title) and b"shutting down" not in title


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("check", "apply"))
    parser.add_argument("--home", type=Path, required=True, help="the gateway's own directory")
    parser.add_argument("--listen", required=True, metavar="HOST:PORT")
    parser.add_argument("--files", type=Path, default=Path("/run/holdfast/active"))
    program = parser.add_mutually_exclusive_group(required=True)
    program.add_argument("--nginx", help="the program, as /usr/sbin/nginx")
    program.add_argument("--python-gateway", type=Path, help="python_gateway.py, where there is no nginx")
    return parser.parse_args()


if __name__ == "__main__":
    main()
