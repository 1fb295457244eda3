"""examples/import: routes from lists that Debian carries, tens of thousands of them, through the whole of it.

The lists are read into routes, compiled, signed, published, fetched, verified, activated and laid out as files; then
more of them, and then one, as increments.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.client import Client
from tests.citations import ROOT

EXAMPLE = ROOT / "examples" / "import"
PLACES = {
    "publicsuffix": Path("/usr/share/publicsuffix/public_suffix_list.dat"),
    "tzdata": Path("/usr/share/zoneinfo/zone1970.tab"),
    "netbase": Path("/etc/services"),
}
LIMIT_S = 600  # a machine with other work; tests assert no times

LISTS = """\
// ===BEGIN ICANN DOMAINS===
uk
co.uk
*.ck
!www.ck
// names that are not ASCII
\u516c\u53f8.cn
co.uk   // twice
// ===END ICANN DOMAINS===
// ===BEGIN PRIVATE DOMAINS===
pages.example
// ===END PRIVATE DOMAINS===
"""
ZONES = "# codes, place, zone\nGB,GG\t+513030-0000731\tEurope/London\nCN\t+3114+12128\tAsia/Shanghai\n"
SERVICES = "http\t80/tcp\twww # a comment\nhttps 443/tcp\nhttps 443/udp # HTTP/3\nssh 22/tcp\n"


def importing(*arguments):
    command = [sys.executable, EXAMPLE / "public_suffixes.py", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done
    return int(re.match(r"(\d+) routes in ", done.stdout)[1])


@pytest.fixture
def lists(tmp_path):
    """Small ones, with one of each kind."""
    for name, text in (("suffixes", LISTS), ("zones", ZONES), ("services", SERVICES)):
        (tmp_path / name).write_text(text)
    return [word for name in ("suffixes", "zones", "services") for word in (f"--{name}", tmp_path / name)]


def routes(folder):
    text = (folder / "routes-of-suffixes.yaml").read_text()
    return dict(re.findall(r"id: (\S+)\nspec: (.*)", text))


def test_each_suffix_gets_a_route_for_each_port(tmp_path, lists):
    assert importing("--to", tmp_path / "all", *lists) == 6 * 3
    found = routes(tmp_path / "all")
    assert found["https-udp.co.uk"] == (
        '{organization: web, service: web-europe, match: {hosts: ["co.uk"], protocol: udp, port: 443}}'
    )
    assert {"http.below.ck", "http.except.www.ck", "http.xn--55qx5d.cn", "http.pages.example"} <= found.keys()
    assert "web-asia" in found["https.xn--55qx5d.cn"]
    assert "web-anywhere" in found["http.pages.example"]


def test_a_part_of_the_list_can_be_had_alone(tmp_path, lists):
    assert importing("--to", tmp_path / "icann", "--domains", "icann", *lists) == 5 * 3
    assert importing("--to", tmp_path / "private", "--domains", "private", *lists) == 1 * 3
    assert not routes(tmp_path / "icann").keys() & routes(tmp_path / "private").keys()


@pytest.fixture(scope="module")
def real_lists():
    missing = [package for package, place in PLACES.items() if not place.exists()]
    if missing:
        pytest.skip(f"NO REAL DATA: apt-get install {' '.join(missing)}")


@pytest.fixture
def gateway(gateway):
    """The node gateway-1 of web.yaml."""
    configuration = gateway.folder / "agent.toml"
    configuration.write_text(configuration.read_text().replace('node_id = "gateway"', 'node_id = "gateway-1"'))
    return gateway


def apply(lab, *places):
    files = [word for place in places for word in ("-f", place)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HOLDFAST_ADMIN_SOCKET": str(lab.socket)}
    command = [Path(sys.executable).with_name("holdfastctl"), "apply", *files, "--yes"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, (done.stderr, lab.log()[-2000:])
    return done.stdout.splitlines()[-1]


def files_of(gateway):
    return sorted((gateway.folder / "run" / "active" / "route_policy").glob("*.json"))


def held(gateway):
    """Every route, as a service on the node reads it."""
    return {route: entry for path in files_of(gateway) for route, entry in json.loads(path.read_bytes()).items()}


def test_tens_of_thousands_of_real_routes_reach_a_node(lab, gateway, tmp_path, real_lists):
    """rules S5, S6, S26, S71, S81: compile, increment, activation, projection."""
    first = importing("--to", tmp_path / "icann", "--domains", "icann")
    more = importing("--to", tmp_path / "private", "--domains", "private")
    assert first > 20_000

    apply(lab, EXAMPLE / "web.yaml", tmp_path / "icann")
    lab.good("allow", "add", "gateway-1")
    lab.good("tokens", "create", "--node", "gateway-1", "--out", gateway.folder / "join.token")
    gateway.start()
    gateway.until(lambda: files_of(gateway) != [])
    assert len(held(gateway)) == first
    assert envelope(gateway)["kind"] == "snapshot"
    assert len(files_of(gateway)) == 64

    apply(lab, tmp_path / "private")
    gateway.until(lambda: version(gateway) == 2)
    gateway.until(lambda: len(held(gateway)) == first + more)

    one = tmp_path / "one.yaml"
    one.write_text(
        "kind: Route\nid: https.org\n"
        "spec: {organization: web, service: web-europe, match: {hosts: [org], protocol: https, port: 443}}\n"
    )
    came = envelope(gateway)
    assert (came["kind"], came["base_config_version"]) == ("increment", 1)
    before = {path.name: path.stat().st_ino for path in files_of(gateway)}
    apply(lab, one)
    gateway.until(lambda: version(gateway) == 3)
    gateway.until(lambda: held(gateway)["https.org"]["service_id"] == "web-europe")
    after = {path.name: path.stat().st_ino for path in files_of(gateway)}
    assert len([name for name in after if after[name] != before[name]]) == 1  # the others are links
    assert len(held(gateway)) == first + more
    came = envelope(gateway)
    assert (came["kind"], came["base_config_version"]) == ("increment", 2)
    assert came["content_length"] < 1_000


def envelope(gateway):
    """Of the document that brought the present version."""
    return Client(gateway.folder / "run" / "agent.sock", timeout_s=LIMIT_S).document("route_policy")["envelope"]


def version(gateway):
    scope = gateway.status["scopes"].get("route_policy")
    return scope["active"]["config_version"] if scope and scope["active"] else 0
