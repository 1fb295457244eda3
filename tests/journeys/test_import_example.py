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
from tests.holdfast.operator_lab import UNGUARDED
from tests.world import programs

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


def run(*arguments):
    command = [sys.executable, EXAMPLE / "public_suffixes.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)


def importing(*arguments):
    done = run(*arguments)
    assert done.returncode == 0, done
    return int(re.match(r"(\d+) routes in ", done.stdout)[1])


def is_refused(tmp_path, lists, *words):
    """In one sentence that names the remedy or the place; what was written before stays."""
    (tmp_path / "all").mkdir(exist_ok=True)
    (tmp_path / "all" / "routes-of-suffixes.yaml").write_text("of yesterday")
    done = run("--to", tmp_path / "all", *lists)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert all(word in done.stderr for word in words), done.stderr
    assert [path.read_text() for path in (tmp_path / "all").iterdir()] == ["of yesterday"]


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


def test_it_is_run_as_its_page_says(tmp_path, lists):
    command = [EXAMPLE / "public_suffixes.py", "--to", tmp_path / "all", *lists]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_a_part_of_the_list_can_be_had_alone(tmp_path, lists):
    assert importing("--to", tmp_path / "icann", "--domains", "icann", *lists) == 5 * 3
    assert importing("--to", tmp_path / "private", "--domains", "private", *lists) == 1 * 3
    assert not routes(tmp_path / "icann").keys() & routes(tmp_path / "private").keys()


@pytest.mark.parametrize(
    ("name", "package"), [("suffixes", "publicsuffix"), ("zones", "tzdata"), ("services", "netbase")]
)
def test_a_list_that_is_not_there_names_the_package_that_has_it(tmp_path, lists, name, package):
    (tmp_path / name).unlink()
    is_refused(tmp_path, lists, str(tmp_path / name), f"sudo apt-get install --yes {package}")


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("suffixes", "", "no public suffixes"),
        ("suffixes", "uk\nco.uk\n", "no public suffixes"),  # the marks of its parts have gone
        ("suffixes", "\x00\xff", "no public suffixes"),
        ("zones", "# codes\n", "no time zones"),
        ("zones", ZONES + "GB Europe/London\n", "zones:4: "),
        ("services", "ssh 22/tcp\n", "neither http nor https"),
        ("services", SERVICES + "http\n", "services:5: "),
        ("services", SERVICES + "http eighty/tcp\n", "services:5: "),
    ],
)
def test_a_list_of_another_form_is_refused(tmp_path, lists, name, text, said):
    (tmp_path / name).write_text(text)
    is_refused(tmp_path, lists, said)


def test_a_list_that_is_no_text_is_refused(tmp_path, lists):
    (tmp_path / "suffixes").write_bytes(b"\xff\xfe\x00")
    is_refused(tmp_path, lists, "suffixes", "UTF-8")


def test_a_newer_list_may_know_what_this_one_does_not(tmp_path, lists):
    """Parts, continents and transports that came later: no route leads to a service that web.yaml lacks."""
    (tmp_path / "suffixes").write_text(
        LISTS + "// ===BEGIN NEW DOMAINS===\nnew.example\nxx\n// ===END NEW DOMAINS===\n"
    )
    (tmp_path / "zones").write_text(ZONES + "XX\t+7800+01100\tArctic/Longyearbyen\tone\tmore\n")
    (tmp_path / "services").write_text(SERVICES + "https 443/sctp\n")
    assert importing("--to", tmp_path / "all", *lists) == 8 * 3
    found = routes(tmp_path / "all")
    assert "service: web-anywhere," in found["https.xx"]
    declared = set(re.findall(r"^id: (web-\S+)$", (EXAMPLE / "web.yaml").read_text(), re.MULTILINE))
    assert {re.search(r"service: ([^,]+),", spec)[1] for spec in found.values()} <= declared


@pytest.fixture(scope="module")
def real_lists():
    missing = [package for package, place in PLACES.items() if not place.exists()]
    if missing:
        pytest.skip(f"NO REAL DATA: apt-get install {' '.join(missing)}")


@pytest.fixture
def settings():
    """What goes out at once is as large, and no ring is waited for."""
    return UNGUARDED


@pytest.fixture
def gateway(gateway):
    """The node gateway-1 of web.yaml."""
    configuration = gateway.folder / "agent.toml"
    configuration.write_text(configuration.read_text().replace('node_id = "gateway"', 'node_id = "gateway-1"'))
    return gateway


def apply(lab, *places):
    files = [word for place in places for word in ("-f", place)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HOLDFAST_ADMIN_SOCKET": str(lab.socket)}
    command = [programs.folder() / "holdfastctl", "apply", *files, "--yes"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, (done.stderr, lab.log()[-2000:])
    return done.stdout.splitlines()[-1]


def files_of(gateway):
    return gateway.files("route_policy")


def held(gateway):
    """Every route, as a service on the node reads it."""
    return {route: entry for path in files_of(gateway) for route, entry in json.loads(path.read_bytes()).items()}


@pytest.mark.parametrize(
    ("services", "least"),
    [
        pytest.param("https 443/tcp\n", 600, id="one way"),
        pytest.param(None, 20_000, id="all ways", marks=pytest.mark.slow),
    ],
)
def test_real_routes_reach_a_node(lab, gateway, tmp_path, real_lists, services, least):
    """rules S5, S6, S26, S71, S81: compile, increment, activation, projection. One way to each ninth site; and all ways
    to all, as the example has it, where it may take longer.
    """
    ways = []
    if services is not None:
        (tmp_path / "services").write_text(services)
        (tmp_path / "suffixes").write_text(ninth_of(PLACES["publicsuffix"].read_text()))
        ways = ["--services", tmp_path / "services", "--suffixes", tmp_path / "suffixes"]
    first = importing("--to", tmp_path / "icann", "--domains", "icann", *ways)
    more = importing("--to", tmp_path / "private", "--domains", "private", *ways)
    assert first > least

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


def ninth_of(suffixes):
    """With its parts, and `org`."""
    lines = suffixes.splitlines()
    return "\n".join(line for at, line in enumerate(lines) if at % 9 == 0 or line[:2] == "//" or line == "org")


def envelope(gateway):
    """Of the document that brought the present version."""
    return Client(gateway.folder / "run" / "agent.sock", timeout_s=LIMIT_S).document("route_policy")["envelope"]


def version(gateway):
    scope = gateway.status["scopes"].get("route_policy")
    return scope["active"]["config_version"] if scope and scope["active"] else 0
