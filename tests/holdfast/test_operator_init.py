"""`holdfastctl init`: a cluster begins, from one command (rules J34, K12)."""

import os
import socket
import ssl
import tomllib
from pathlib import Path

import pytest

from coordinator.setup.configuration import OPTIONAL, TABLES
from holdfast.ctl.socket import REFUSED
from tests.holdfast.operator_lab import Lab


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def test_what_it_made_is_told_and_starts(lab: Lab) -> None:
    """rules J34, K8: the configuration that it writes is the daemon's."""
    ran = lab.init("--host", "coord.example")
    assert ran.out.count("root key ") == 3
    assert "Take the root keys away" in ran.out
    lab.start()
    try:
        assert lab.good("status", "--json").json["cluster_id"] == "prod"
    finally:
        lab.stop()


def test_a_coordinator_without_the_cas_key_does_all_but_renew_its_certificate(lab: Lab) -> None:
    """threats D-61: it starts, lets nodes in and is backed up; a renewal says what is missing, and goes with it"""
    stick, words = lab.folder / "stick", lab.folder / "words"
    words.write_text("four words\n")
    words.chmod(0o600)
    made = lab.init("--ca-key-to", stick, "--passphrase-file", words, "--json").json
    assert made["ca_key"] == str(stick / "ca-key.pem")
    assert not (lab.folder / "state/tls/ca-key.pem").exists()
    lab.start()
    try:
        assert lab.good("tokens", "create", "--json").json["token"]
        kept = lab.good("backup", "--to", lab.folder / "backups", "--configuration", lab.configuration, "--json").json
        assert kept
        renew = ("coordinators", "certificate", "--configuration", lab.configuration)
        without = lab.ctl(*renew)
        assert (without.status, "ca-key.pem is not there" in without.err, "--ca" in without.err) == (
            REFUSED,
            True,
            True,
        )
        assert lab.ctl(*renew, "--ca", stick, "--passphrase-file", lab.configuration).status != 0
        lab.good(*renew, "--ca", stick, "--passphrase-file", words)
        lab.reload()
        assert lab.good("status", "--json").json["cluster_id"] == "prod"
    finally:
        lab.stop()


def test_a_backup_that_lacks_what_is_sealed_ends_with_what_brings_it_back(lab: Lab) -> None:
    """rules H4: whoever reads the last line alone knows it, after the backup, its verification and its restore"""
    lab.init()
    file, config = lab.folder / "whole.tar", ("--configuration", lab.configuration)
    assert "INCOMPLETE" not in lab.good("backup", "--to", file, *config).out + lab.good("backup", "verify", file).out
    assert lab.good("backup", "verify", file, "--json").json["lacks"] == []
    (mesh_key,) = lab.keys.glob("config-*.pem")
    for path in (mesh_key, lab.keys / "seed"):  # as `systemd-creds` leaves them: what is in them opens here alone
        path.rename(path.with_name(f"{path.name}.cred"))
    file = lab.folder / "without.tar"
    made, read = lab.good("backup", "--to", file, *config).out, lab.good("backup", "verify", file)
    lacks = [f"keys/{mesh_key.name}", "keys/seed"]
    for said in (made, read.out):
        last = said.splitlines()[-1]
        assert last.startswith("INCOMPLETE: ") and ", ".join(lacks) in last, said
        assert "A ready coordinator" in last and "coordinators recover --share" in last
    assert lab.good("backup", "verify", file, "--json").json["lacks"] == lacks
    meant = lab.good("backup", "--to", lab.folder / "meant.tar", "--without-keys", *config).out
    assert meant.splitlines()[-1] == "It holds no private keys: keep those elsewhere."
    (lab.folder / "state").rename(lab.folder / "before")
    restored = lab.good("restore", file, *config).out
    assert restored.splitlines()[-1] == made.splitlines()[-1]
    lab.good("backup", "--to", lab.folder / "nowhere.tar", *config)
    found = lab.good("backup", "verify", lab.folder / "nowhere.tar", "--json").json
    assert found["lacks"] == ["keys/config-*.pem", "keys/seed"]  # nor sealed: they come anew at each start
    for path in (lab.folder / "before" / "keys").glob("*.cred"):
        path.rename(lab.keys / path.stem)
    lab.start()
    try:  # what was noted without the seed is linked by who has it
        (added, *_) = lab.good("audit", "--json", "--action", "backup").json["entries"]
        assert (added["actor"], "nowhere.tar" in str(added["after"])) == (f"uid:{os.getuid()}", True)
        assert lab.good("audit", "verify", "--json").json["good"]
    finally:
        lab.stop()


def test_every_listener_stands_in_what_it_writes(lab: Lab) -> None:
    """Also those that nobody asked for: whoever looks for a port finds it there, as the daemon's own."""
    places = ("--state", "state", "--root-keys-to", lab.roots, "--configuration", lab.configuration)
    lab.good("init", "prod", "--url", "https://localhost:7443", *places)
    written = tomllib.loads(lab.configuration.read_text())["listen"]
    assert written == {
        "fleet": "0.0.0.0:7443",
        "join": "0.0.0.0:7444",
        **{name: OPTIONAL["listen", name] for name in ("probes", "admin_socket", "admin", "coordinators")},
    }
    assert set(TABLES["listen"]) - set(written) == {"connections_per_address"}


def test_a_caller_that_stays_does_not_keep_the_coordinator(lab: Lab) -> None:
    """rules J34: what init made starts and ends; an idle connection ends with it, for whoever waits for that."""
    lab.init()
    lab.start()
    context = ssl.create_default_context(cafile=str(lab.folder / "state" / "tls" / "ca.pem"))
    raw = socket.create_connection(("127.0.0.1", lab.ports["join"]))
    with context.wrap_socket(raw, server_hostname="localhost") as stays:
        stays.sendall(b"GET /v1/join/nonce HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert stays.recv(4096).startswith(b"HTTP/1.1 200")
        lab.process.terminate()
        assert lab.process.wait(30) == 0


def test_the_first_declared_state_is_applied_as_it_is(lab: Lab) -> None:
    """No cluster begins without a policy for outages: nothing warns of it, and a node would go on for three days."""
    made = Path(lab.init("--json").json["declared"])
    assert made == lab.folder / "fabric" / "cluster.yaml"
    before = made.read_text()
    assert lab.ctl("init", "prod", "--url", "https://localhost:7443", "--state", "state", "--root-keys-to", "others",
                   "--configuration", lab.configuration).status == REFUSED  # fmt: skip
    assert made.read_text() == before
    lab.start()
    try:
        (lab.folder / "fabric" / "node.yaml").write_text("{kind: Node, id: gw-1, spec: {roles: [ingress]}}\n")
        applied = lab.good("apply", "-f", lab.folder / "fabric", "--yes")
        assert "+ Cluster prod\n+ DegradedModePolicy standard\n" in applied.out
        assert "warning" not in applied.err
    finally:
        lab.stop()
    (node,) = lab.good("drill", "outage", "30d", "-f", lab.folder / "fabric", "--json").json["nodes"]
    assert next(each["after_s"] for each in node["states"] if each["mode"] == "fenced") == 1_800 + 3 * 86_400


def test_a_folder_that_is_there_is_the_operators(lab: Lab) -> None:
    (lab.folder / "fabric").mkdir(mode=0o775)
    assert lab.init("--json").json["declared"] is None
    assert list((lab.folder / "fabric").iterdir()) == []


def test_again_is_refused(lab: Lab) -> None:
    """rules J34"""
    lab.init()
    again = ("--state", "state", "--root-keys-to", lab.folder / "others", "--configuration", lab.configuration)
    ran = lab.ctl("init", "prod", "--url", "https://localhost:7443", *again)
    assert ran.status == REFUSED
    assert "holds a cluster" in ran.err
    assert not (lab.folder / "others").exists()


def test_secrets_are_not_said(lab: Lab) -> None:
    """threats D-61: a passphrase comes from a file, and no secret goes to the screen."""
    passphrase = lab.folder / "passphrase"
    passphrase.write_text("correct horse\n")
    passphrase.chmod(0o600)
    ran = lab.init("--passphrase-file", passphrase, "--json")
    assert "correct horse" not in ran.out + ran.err
    assert "PRIVATE" not in ran.out + ran.err
    keys = [Path(path) for _, path in ran.json["root_keys"]]
    assert all(b"ENCRYPTED" in path.read_bytes() for path in keys)
    assert not any("passphrase" in word for word in ran.json)


def test_a_configuration_that_says_otherwise_is_refused(lab: Lab) -> None:
    """rules K8, K9: whatever differs, or is an agent's, is named."""
    places = ("--state", "state", "--root-keys-to", lab.roots, "--configuration", lab.configuration)
    command = ("init", "prod", "--url", "https://localhost:7443", *places)
    lab.configuration.write_text('coordinators = ["https://coord.example:7443"]\n')
    ran = lab.ctl(*command)
    assert (ran.status, "agent" in ran.err) == (REFUSED, True)
    lab.configuration.unlink()
    lab.init()
    for path in (lab.folder / "state", lab.roots):
        path.rename(path.with_name(f"old-{path.name}"))
    ran = lab.ctl(*command, "--coordinator-id", "other")
    assert ran.status == REFUSED
    assert "coordinator_id" in ran.err
    assert not lab.roots.exists()
    lab.good(*command)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("Prod", "--url", "https://localhost:7443"), "J25"),
        (("prod", "--url", "http://localhost"), "https://host:port"),
        (("prod", "--url", "https://localhost:7443", "--roots", "2", "--threshold", "3"), "1 to 2"),
        (("prod", "--url", "https://localhost:7443", "--database", "mysql://x"), "sqlite"),
        (("prod", "--url", "https://localhost:7443", "--passphrase-file", "nowhere"), "nowhere"),
        (("prod", "--url", "https://localhost:7443", "--listen", "127.0.0.1:99999"), "--listen"),
        (("prod", "--url", "https://localhost:7443", "--listen-join", "nonsense"), "listen.join must be host:port"),
        (("prod", "--url", "https://localhost:7443", "--listen-admin", 'a"b'), "not TOML"),
        (("Prod", "--url", "https://localhost:7443", "--coordinator-id", "No Id"), "coordinator_id"),
    ],
)
def test_what_is_at_odds_is_refused_and_nothing_is_made(lab: Lab, arguments: tuple[str, ...], word: str) -> None:
    """rules J25, J34"""
    places = ("--state", "state", "--root-keys-to", lab.roots, "--configuration", lab.configuration)
    ran = lab.ctl("init", *arguments, *places)
    assert ran.status == REFUSED, ran
    assert word in ran.err
    assert list(lab.folder.rglob("*")) == []
