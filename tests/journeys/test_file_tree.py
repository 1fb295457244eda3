"""A node whose coordinator is gone goes on from files: `holdfastctl publish --to`, and any file server beside it."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from coordinator.keys import derived_authority
from coordinator.keys import seed as seeds
from tests.fakes.storage import own_address
from tests.holdfast.operator_lab import UNGUARDED, Lab
from tests.journeys.gateway import FABRIC, until_published
from wire.certificate import issue_server

SERVER = """
import functools, http.server, ssl, sys
folder, host, certificate, key = sys.argv[1:]
handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=folder)
server = http.server.ThreadingHTTPServer((host, 0), handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_port, flush=True)
server.serve_forever()
"""

STORED = """\
---
kind: StorageEndpoint
id: files
spec: {{url: "{url}"}}
---
kind: DegradedModePolicy
id: stored
spec: {{allow: [continue_services, use_storage_endpoints], allow_unconfirmed_start: true}}
"""


@pytest.fixture
def settings() -> str:
    return UNGUARDED


@contextmanager
def file_server(folder: Path, authority: Path, host: str) -> Iterator[str]:
    """Python's own, over TLS of the cluster's CA: it knows nothing of Holdfast. Its URL."""
    ca = derived_authority.beside(authority, seeds.load(authority.parent / "keys", {}))
    pair = issue_server(ca, [host], time.time())
    certificate, key = folder.parent / "files.pem", folder.parent / "files-key.pem"
    certificate.write_bytes(pair.certificate_pem)
    key.write_bytes(pair.key_pem)
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(folder), host, str(certificate), str(key)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield f"https://{host}:{process.stdout.readline().strip()}"
    finally:
        process.kill()
        process.communicate()


def declare(lab: Lab, port: int, url: str) -> None:
    fabric = FABRIC.format(port=port).rpartition("---\nkind: DegradedModePolicy")[0]
    (lab.folder / "fabric.yaml").write_text(fabric + STORED.format(url=url))
    lab.good("apply", "-f", lab.folder / "fabric.yaml", "--yes")


def test_files_feed_a_node_whose_coordinator_is_gone(lab, gateway, tmp_path):
    """rules X1, S2, S64, L14, S55e: a published tree, a plain file server, and nobody else"""
    tree = tmp_path / "tree"
    tree.mkdir()
    with file_server(tree, lab.folder / "state" / "tls", own_address()) as url:
        declare(lab, 8081, url)
        gateway.start()
        lab.good("allow", "add", "gateway")
        lab.good("tokens", "create", "--node", "gateway", "--out", gateway.folder / "join.token")
        gateway.until(lambda: gateway.status["state"] == "active" and gateway.port() == 8081)
        gateway.kill()
        declare(lab, 8082, url)
        until_published(lab)
        lab.good("publish", "--to", tree)
        lab.stop()

        gateway.start()
        gateway.until(lambda: gateway.port() == 8082)
        status = gateway.status
        assert status["state"] == "active"
        sources = {row["kind"]: row for row in status["sources"]}
        assert sources["storage"] == {
            "kind": "storage", "url": url, "named_by": "storage_directory", "error": "", "failures": 0,
            "again_in_s": sources["storage"]["again_in_s"], "node_id": None, "peer_set": None, "near": None,
            "relay": None, "worked_s_ago": sources["storage"]["worked_s_ago"],
            "trust_bundle_version": None, "lacks": None,
        }  # fmt: skip
        assert sources["storage"]["worked_s_ago"] >= 0
        assert "connect_failed" in sources["coordinator"]["error"]
