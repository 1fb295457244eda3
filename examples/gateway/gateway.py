#!/usr/bin/env python3
"""The ingress gateway's configuration, made from the files that the agent leaves: for nginx, or for python_gateway.py.

    gateway.py check ...    before an activation: what is offered, in $HOLDFAST_STAGED; exit 1 keeps it out
    gateway.py apply ...    after it: what is active, in --files; the gateway is told to read it
    gateway.py ask ...      while it is on probation: whether --host is answered; exit 1 has the node go back

The agent runs them (`validate`, `command` and `check` of a [[service]] in agent.toml). The gateway itself is started by
whoever starts services; it needs nothing of Holdfast but this one file. Standard library only.
"""

import argparse
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# What may stand in a configuration file; it is put there without quotes.
PLAIN_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")
PLAIN_HOST = re.compile(r"[a-z0-9][a-z0-9.-]*|\[[0-9a-f:.]+\]")
PLAIN_PATH = re.compile(r"/[A-Za-z0-9._~/-]*")
PLAIN_PLACE = re.compile(rf"(?:{PLAIN_HOST.pattern}):[1-9][0-9]{{0,4}}")
WEB = ("http", "any")
TAKEN_S = 10


class CannotRenderError(Exception):
    """What is configured cannot be written down for a gateway; the text names it."""


@dataclass(frozen=True)
class Entrance:
    """One route as a gateway sees it: a host name, where its paths begin, and where requests go."""

    route: str
    host: str  # empty for all of them
    prefix: str
    upstreams: tuple[str, ...]  # host:port; empty while the service is nowhere


def main() -> None:
    arguments = _arguments()
    if arguments.what == "ask":
        _ask(arguments)
        return
    try:
        text = write(list(entrances(_files(arguments), arguments.listen)), arguments)
    except CannotRenderError as error:
        sys.exit(str(error))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        sys.exit(f"what stands in the files cannot be read as routes and services: {error!r}")
    candidate = arguments.home / f"{arguments.what}.conf"
    candidate.write_text(text)
    _judged(candidate, arguments)
    if arguments.what == "apply":
        candidate.replace(arguments.home / "gateway.conf")
        _told(arguments.home / "gateway.pid")


# ---- reading


def entrances(files: Path, listen: str) -> Iterator[Entrance]:
    """Those of the gateway that listens there, in the order of the routes' ids. `files`: as /run/holdfast/active."""
    services = entries(files.glob("service_assignment@*/*.json"))
    own_port = int(listen.rpartition(":")[2])
    for name, route in sorted(entries(files.glob("route_policy/routes*.json")).items()):
        match = route["match"]
        if match["protocol"] in WEB and match["port"] in (0, own_port):
            upstreams = tuple(_web_endpoints(services.get(route["service_id"], {})))
            for host in match["hosts"] or [""]:
                yield Entrance(name, host, match["path_prefix"] or "/", upstreams)


def _files(arguments: argparse.Namespace) -> Path:
    if arguments.what == "apply":
        return Path(arguments.files)
    if "HOLDFAST_STAGED" not in os.environ:
        raise CannotRenderError("the agent runs this check, and names the folder to be checked in $HOLDFAST_STAGED")
    return Path(os.environ["HOLDFAST_STAGED"])


def entries(files: Iterable[Path]) -> dict[str, Any]:
    """By id: a service has a folder of its own, a large map comes in several files of one."""
    found: dict[str, Any] = {}
    for path in sorted(files):
        found |= json.loads(path.read_bytes())
    return found


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
    """Nothing reaches a configuration file that could be read as more than a name, a path or a place.

    A signature says who wrote a value, and nothing of what nginx would take it for.
    """
    parts = [("name", each.route, PLAIN_NAME), ("path", each.prefix, PLAIN_PATH)]
    parts += [("host name", each.host, PLAIN_HOST)] if each.host != "" else []
    parts += [("host and port", place, PLAIN_PLACE) for place in each.upstreams]
    for what, value, form in parts:
        if not form.fullmatch(str(value)):
            raise CannotRenderError(f"route {each.route}: {value!r} is no plain {what}")


def nginx_configuration(found: list[Entrance], home: Path, listen: str) -> str:
    upstreams = {each.route: each.upstreams for each in found if each.upstreams}
    temporary = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    lines = [
        f"pid {_quoted(home / 'gateway.pid')};",
        f"error_log {_quoted(home / 'error.log')};",
        "worker_processes 1;",
        "events { worker_connections 512; }",
        "http {",
        "  access_log off;",
        "  server_names_hash_bucket_size 128;",
        *(f"  {name}_temp_path {_quoted(home / name)};" for name in temporary),
        *(f"  upstream {name} {{ {_servers(places)} }}" for name, places in upstreams.items()),
        *(line for host in sorted({"", *(each.host for each in found)}) for line in _server(host, found, listen)),
        "}",
    ]
    return "\n".join(lines) + "\n"


def _quoted(path: Path) -> str:
    """As nginx reads it back: a folder may have any name."""
    return '"' + str(path).replace("\\", "\\\\").replace('"', '\\"') + '"'


def _servers(places: tuple[str, ...]) -> str:
    return " ".join(f"server {place};" for place in places)


def _server(host: str, found: list[Entrance], listen: str) -> Iterator[str]:
    """One for each host name, and one for all others. A host's own route goes before one that is for every host."""
    own = [each for each in found if each.host == host]
    taken = {each.prefix for each in own}
    common = [each for each in found if not each.host and each.prefix not in taken] if host else []
    yield f"  server {{ listen {listen}" + (f"; server_name {host};" if host else " default_server;")
    for each in own + common:
        to = f"proxy_pass http://{each.route};" if each.upstreams else "return 503;"
        yield f"    location {each.prefix} {{ proxy_set_header Host $host; {to} }}"
    if not any(each.prefix == "/" for each in own + common):
        yield "    location / { return 404; }"
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


def _ask(arguments: argparse.Namespace) -> None:
    """As a visitor does: a configuration that is in perfect order may be the wrong one."""
    connection = http.client.HTTPConnection(arguments.listen, timeout=TAKEN_S)
    try:
        connection.request("GET", "/", headers={"Host": arguments.host})
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        sys.exit(f"{arguments.host} does not answer: {error}")
    finally:
        connection.close()
    if status != http.client.OK:
        sys.exit(f"{arguments.host} answers {status}")


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
    parser.add_argument("what", choices=("check", "apply", "ask"))
    parser.add_argument("--home", type=Path, required=True, help="the gateway's own directory")
    parser.add_argument("--listen", required=True, metavar="HOST:PORT")
    parser.add_argument("--host", default="localhost", help="for whom `ask` asks")
    parser.add_argument("--files", type=Path, default=Path("/run/holdfast/active"))
    program = parser.add_mutually_exclusive_group(required=True)
    program.add_argument("--nginx", help="the program, as /usr/sbin/nginx")
    program.add_argument("--python-gateway", type=Path, help="python_gateway.py, where there is no nginx")
    return parser.parse_args()


if __name__ == "__main__":
    main()
