"""A site whose link is cut: a laptop that carries what is published to it, and one neighbour that keeps contact."""

import signal
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.holdfast.operator_lab import UNGUARDED
from tests.journeys.gateway import until_published
from tests.journeys.site import PORT, SiteLab, site
from tests.journeys.test_site import LINK, MB, content
from wire.certificate import fingerprint, issue_server, make_authority

NAMES = ["n1", "n2", "n3", "n4"]
HEAD_S = 240
MIRROR = """\
---
kind: StorageEndpoint
id: mirror
spec: {{url: "{url}", certificates: ["{fingerprint}"]}}
"""


def enter(made: SiteLab) -> None:
    """All are members, have the same, and know each other."""
    made.declare(b"first")
    made.join()
    made.until_held(b"first")


def ask_often(made: SiteLab) -> None:
    """A source has answered once a request for a head has, which may be held for as long as it asks to be."""
    for node in made.nodes.values():
        file = node.folder / "agent.toml"
        file.write_text(file.read_text().replace("[intervals]", "[intervals]\npoll_wait_s = 10"))


def versions(made: SiteLab) -> dict[str, dict[str, tuple[int, str]]]:
    """What each node runs, and from where it came."""
    found = {}
    for name, node in made.nodes.items():
        status = node.status
        active = {scope: held["active"] for scope, held in status["scopes"].items() if held["active"]}
        found[name] = {
            scope: (held["config_version"], status["origins"].get(scope, {}).get("source", ""))
            for scope, held in active.items()
        }
    return found


def counted(made: SiteLab, name: str) -> dict[str, int]:
    return {node_id: node.status["counters"].get(name, 0) for node_id, node in made.nodes.items()}


def test_a_laptop_carries_a_change_to_a_hall_without_a_link(tmp_path):
    """rules K3, K5, X28: the hall was switched off and on meanwhile; the stick goes to one node, which is no relay, and
    reaches all; a second one to another node; the same stick once more changes nothing; then the link is back
    """
    with site(tmp_path, NAMES, relays=["n1"]) as made:
        ask_often(made)
        enter(made)
        made.cut(*NAMES)
        for node in made.nodes.values():
            node.kill()
        for node in made.nodes.values():
            node.start()
        for turn, name in enumerate(["n3", "n1"]):
            data = content(MB, turn)
            made.declare(data)
            until_published(made.lab)
            stick = tmp_path / f"stick-{turn}"
            made.lab.good("publish", "--to", stick)
            handed = made.nodes[name].ask("import", *sorted(stick.rglob("*.hfs")))
            assert handed.status == 0, handed
            times = made.until_held(data)
            assert set(times) == set(NAMES)
        others = {origin for node in ("n2", "n3", "n4") for scope, (_, origin) in versions(made)[node].items()}
        assert any(f":{PORT}" in origin for origin in others)
        assert not any(made.link.here in origin for origin in others if origin.endswith(str(PORT)))
        before, fetched = versions(made), counted(made, "documents_asked_for")
        assert made.nodes["n3"].ask("import", *sorted(stick.rglob("*.hfs"))).status == 0
        made.mend(*NAMES)
        for node in made.nodes.values():
            node.process.send_signal(signal.SIGHUP)
        made.until(lambda: all(answered(node) for node in made.nodes.values()))
        assert versions(made) == before
        assert counted(made, "documents_asked_for") == fetched


def answered(node) -> bool:
    """Whether a coordinator does, after it was asked in vain."""
    rows = [row for row in node.status["sources"] if row["kind"] == "coordinator"]
    return all(row["failures"] == 0 for row in rows) and node.status["state"] == "active"


@contextmanager
def mirror(folder: Path, host: str) -> Iterator[tuple[str, str]]:
    """Any HTTPS file server: its URL, and its certificate's fingerprint."""
    shown = issue_server(make_authority("mirror", time.time()), [host], time.time())
    (folder / "mirror.pem").write_bytes(shown.certificate_pem + shown.key_pem)

    class Files(SimpleHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer((host, 0), partial(Files, directory=folder / "tree"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "mirror.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"https://{host}:{server.server_port}", fingerprint(shown.der)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.slow
def test_one_neighbour_keeps_contact(tmp_path, shown):
    """rules X27, L19, S55: three of four are cut off for longer than a head lasts, behind a slow link. The relay brings
    their heads from a mirror: they stay active, and a change reaches them over the link once. Then the link is back,
    and nothing is done twice.
    """
    tree = tmp_path / "tree"
    tree.mkdir()
    settings = (
        f'{UNGUARDED}\nshort_lifetimes = true\nhead_lifetime_s = {HEAD_S}\n[storage.mirror]\ndirectory = "{tree}"'
    )
    cut_off = NAMES[1:]
    with site(tmp_path / "site", NAMES, relays=["n1"], settings=settings) as made:
        with mirror(tmp_path, made.link.here) as (url, pin):
            made.beside = MIRROR.format(url=url, fingerprint=pin)
            enter(made)
            made.until(lambda: all("storage_directory" in found for found in versions(made).values()))
            made.until_relayed()
            made.link.shape(**LINK)
            made.cut(*cut_off)
            begun = time.monotonic()
            states = set[str]()

            def is_over(seconds: float) -> bool:
                states.update(made.nodes[name].status["state"] for name in cut_off)
                return time.monotonic() - begun > seconds

            made.until(lambda: is_over(HEAD_S * 1.25))
            assert states == {"active"}
            data = content(MB, 7)
            made.link.reset()
            made.declare(data)
            reached = made.until_held(data)
            share = made.link.passed["in"] / len(data)
            before, fetched = versions(made), counted(made, "documents_asked_for")
            made.mend(*cut_off)
            for name in cut_off:
                made.nodes[name].process.send_signal(signal.SIGHUP)
            made.until(lambda: all(answered(node) for node in made.nodes.values()))
            assert {name: {s: v for s, (v, _) in found.items()} for name, found in versions(made).items()} == {
                name: {s: v for s, (v, _) in found.items()} for name, found in before.items()
            }
            assert counted(made, "documents_asked_for") == fetched
    shown(
        f"cut for {HEAD_S * 1.25:.0f} s: active all along; then 1 MB reached all in {max(reached.values()):.0f} s,"
        f" {share:.2f} of it over the link"
    )
