"""A directory that the coordinator keeps up, and nginx over it: a node whose coordinator is gone takes a head, an
increment and a recovery from there.
"""

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.fakes.storage import own_address
from tests.holdfast.operator_lab import UNGUARDED, Lab
from tests.journeys.gateway import FABRIC, Gateway, until_published
from tests.journeys.test_storage_nodes import standing
from tests.world.pauses import pauses
from tests.world.ports import free_ports
from wire.certificate import fingerprint, make_identity

NGINX = shutil.which("nginx", path="/usr/sbin:/usr/bin")
CONFIGURATION = """
daemon off;
pid {home}/pid;
error_log {home}/error.log;
user root;
events {{}}
http {{
    log_format paths '$request_method $uri $status';
    access_log {home}/access.log paths;
    client_body_temp_path {home}/body;
    proxy_temp_path {home}/proxy;
    fastcgi_temp_path {home}/fastcgi;
    uwsgi_temp_path {home}/uwsgi;
    scgi_temp_path {home}/scgi;
    server {{
        listen {at} ssl;
        ssl_certificate {home}/shown.crt;
        ssl_certificate_key {home}/shown.key;
        ssl_protocols TLSv1.3;
        root {tree};
        location / {{ default_type application/octet-stream; }}
    }}
}}
"""
STORED = """\
---
kind: StorageEndpoint
id: files
spec: {{url: "https://{at}", certificates: ["{pin}"]}}
---
kind: DegradedModePolicy
id: stored
spec: {{allow: [continue_services, use_storage_endpoints], allow_unconfirmed_start: true}}
"""
SERVICE = "service_assignment/web"


@pytest.fixture
def settings(tmp_path: Path) -> str:
    return f'{UNGUARDED}\nstore_polling_s = 1\n[storage.files]\ndirectory = "{tmp_path}/tree"\n'


@contextmanager
def nginx(home: Path, tree: Path, at: str) -> Iterator[str]:
    """Of what its certificate is."""
    home.mkdir()
    pair = make_identity("files", time.time())
    (home / "shown.crt").write_bytes(pair.certificate_pem)
    (home / "shown.key").write_bytes(pair.key_pem)
    (home / "nginx.conf").write_text(CONFIGURATION.format(home=home, tree=tree, at=at))
    process = subprocess.Popen([NGINX, "-p", str(home), "-c", str(home / "nginx.conf")], stderr=subprocess.DEVNULL)
    try:
        yield fingerprint(pair.der)
    finally:
        process.terminate()
        process.wait(30)


def fetched(home: Path) -> list[str]:
    """What was asked for and given, by folder."""
    lines = [line.split() for line in (home / "access.log").read_text().splitlines()]
    return [path.split("/")[1] for _, path, status in lines if status == "200"]


@pytest.mark.skipif(NGINX is None, reason="needs nginx")
def test_nginx_over_a_kept_directory_feeds_a_node(lab: Lab, gateway: Gateway, tmp_path: Path) -> None:
    """rules S2, L19, S64, S65, X1: each publication comes there by itself, increments and recoveries too"""
    at, home, tree = f"{own_address()}:{free_ports(1)[0]}", tmp_path / "nginx", tmp_path / "tree"
    with nginx(home, tree, at) as pin:

        def declare(port: int) -> None:
            first = FABRIC.format(port=port).rpartition("---\nkind: DegradedModePolicy")[0].rstrip()
            host = f"{'a' * 60}.example"
            entry = "    - {{name: n{number}, protocol: http, host: {host}, port: 1, exposed: true}}"
            others = (entry.format(number=number, host=host) for number in range(30))
            (lab.folder / "fabric.yaml").write_text("\n".join([first, *others, STORED.format(at=at, pin=pin)]))
            lab.good("apply", "-f", lab.folder / "fabric.yaml", "--yes")

        declare(8081)
        gateway.join(8081)
        gateway.kill()
        declare(8082)
        until_stored(lab, "increments", tree)
        lab.stop()
        gateway.start()
        gateway.until(lambda: gateway.port() == 8082)
        assert {"heads", "increments"} <= set(fetched(home))

        gateway.kill()
        lab.start()
        lab.until_ready()
        versions = lab.good("nodes", "versions", "gateway", SERVICE, "--json").json["versions"]
        wanted = ("--to", versions[-2]["config_version"], "--root-key", lab.roots, "--yes")
        lab.good("recover", "gateway", SERVICE, *wanted)
        until_stored(lab, "recoveries", tree)
        lab.stop()
        gateway.start()
        gateway.until(lambda: gateway.port() == 8081)
        assert "recoveries" in fetched(home)


def until_stored(lab: Lab, folder: str, tree: Path) -> None:
    """All that is published lies there, and something in this folder."""
    until_published(lab)
    whole, end, pause = tree.with_name("whole"), time.monotonic() + 60, pauses()

    def is_there() -> bool:
        lab.good("publish", "--to", whole)
        files = [path.relative_to(whole) for path in whole.glob("*/*.hfs")]
        alike = all(
            (tree / path).exists() and (tree / path).read_bytes() == (whole / path).read_bytes() for path in files
        )
        return alike and any((whole / folder).iterdir())

    whole.mkdir(exist_ok=True)
    while not is_there():
        assert time.monotonic() < end, lab.log()
        time.sleep(next(pause))
    assert standing(lab)["files"]["state"] == "current"
