"""Coordinators and their entries: joins are bound to what they show, tokens to what they sign with (rules K26, K34)."""

import os
import signal
from dataclasses import replace

import pytest
import trio
import trio.testing

from coordinator.base.refusal import Code, Refused
from coordinator.database import cluster_state
from coordinator.database.database import Database
from coordinator.keys import keystore
from coordinator.keys.signing_key import SigningKey
from coordinator.keys.tokens import key_id_of
from coordinator.membership import replicas
from snapshot.bundle import CONFIG
from tests.coordinator import entered
from tests.coordinator.candidates import FOUNDING, NOW, SERVER, contents
from tests.coordinator.daemon import Running, TlsNode, running
from tests.coordinator.founding import Founded
from tests.coordinator.test_cluster_state import code
from wire.certificate import KeyPair, fingerprint, issue_server, make_authority

OTHER_SERVER = "sha256:" + "2c" * 32
SECOND = replace(
    FOUNDING, coordinator_id="coord-2", certificate_sha256=OTHER_SERVER, token_public_key=b"another token key"
)


def add(database: Database, founding: cluster_state.Founding = SECOND) -> None:
    entered.add(database, founding, actor="root", now=NOW)


def follow(database: Database, name: str, certificate: str, token_key: bytes) -> bool:
    return replicas.follow(database, name, certificate, token_key, actor=name, now=NOW)


def known(database: Database) -> tuple[frozenset[str], dict[str, bytes]]:
    with database.read() as transaction:
        return cluster_state.server_certificates(transaction), cluster_state.token_keys(transaction)


def test_another_replica_brings_its_own_keys(cluster: Database) -> None:
    """rules K26, K34"""
    add(cluster)
    certificates, token_keys = known(cluster)
    assert certificates == {SERVER, OTHER_SERVER}
    assert set(token_keys.values()) == {FOUNDING.token_public_key, SECOND.token_public_key}
    assert [each.coordinator_id for each in replicas.list_replicas(cluster)] == [FOUNDING.coordinator_id, "coord-2"]


def test_an_entry_follows_the_files(cluster: Database) -> None:
    """rules K26, K34: one audit row for each change, and none where nothing has changed"""
    add(cluster)
    before = contents(cluster, "audit")
    assert not follow(cluster, "coord-2", OTHER_SERVER, SECOND.token_public_key)
    assert contents(cluster, "audit") == before
    renewed = "sha256:" + "3d" * 32
    assert follow(cluster, "coord-2", renewed, b"a newer token key")
    assert not follow(cluster, "coord-2", renewed, b"a newer token key")
    certificates, token_keys = known(cluster)
    assert certificates == {SERVER, renewed}
    assert token_keys[key_id_of(b"a newer token key")] == b"a newer token key"
    assert key_id_of(SECOND.token_public_key) not in token_keys
    assert len(contents(cluster, "audit")["audit"]) == len(before["audit"]) + 1


def test_a_stranger_has_no_entry_to_follow(cluster: Database) -> None:
    """A machine that was copied under another name is told how one begins, and takes no other's place"""
    before = contents(cluster, "coordinators", "audit")
    with pytest.raises(Refused) as caught:
        follow(cluster, "coord-3", OTHER_SERVER, b"a key")
    assert caught.value.code is Code.NOT_FOUND
    assert FOUNDING.coordinator_id in caught.value.remedy
    assert replicas.PREPARE in caught.value.remedy
    add(cluster)
    assert code(follow, cluster, "coord-2", OTHER_SERVER, FOUNDING.token_public_key) is Code.IN_USE
    assert contents(cluster, "coordinators")["coordinators"][0] in before["coordinators"]


def test_one_that_is_gone_is_removed(cluster: Database) -> None:
    """rules K26: its tokens count no more; the one that answers stays"""
    add(cluster)
    removed = {"answering": FOUNDING.coordinator_id, "actor": "root", "now": NOW}
    assert code(replicas.remove, cluster, FOUNDING.coordinator_id, **removed) is Code.IN_USE
    assert code(replicas.remove, cluster, "coord-3", **removed) is Code.NOT_FOUND
    replicas.remove(cluster, "coord-2", **removed)
    assert known(cluster) == ({SERVER}, {key_id_of(FOUNDING.token_public_key): FOUNDING.token_public_key})
    add(cluster)


# ---- the running daemon


def exchanged(founded: Founded) -> KeyPair:
    """Another certificate in the files of the coordinator, of another CA; clients trust that from now on."""
    ca = make_authority("another authority", founded.now)
    pair = issue_server(ca, ["localhost", "127.0.0.1"], founded.now)
    (founded.folder / "ca.pem").write_bytes(ca.certificate_pem)
    (founded.folder / "server.key").write_bytes(pair.key_pem)
    (founded.folder / "server.crt").write_bytes(pair.certificate_pem)
    return pair


async def admitted(at: Running, node_id: str) -> None:
    await at.ask("POST", f"/v1/allowlist/{node_id}", {})
    grant = await TlsNode(at, node_id).join(await at.token(node_id))
    assert grant.outcome == "admitted"


async def test_nodes_join_after_the_certificate_was_exchanged(founded: Founded) -> None:
    """rules K34, J3: a proof names the certificate that the node was shown, and that is the present one"""
    async with running(founded) as at:
        await admitted(at, "node-a")
        pair = exchanged(founded)
        os.kill(os.getpid(), signal.SIGHUP)
        with trio.fail_after(30):
            while fingerprint(pair.der) not in known(at.daemon.coordinator.database)[0]:
                await trio.testing.wait_all_tasks_blocked(0.01)
        await admitted(at, "node-b")
    exchanged(founded)
    async with running(founded) as at:
        await admitted(at, "node-c")


async def test_an_exchange_that_fails_leaves_the_present_one(founded: Founded, capfd: pytest.CaptureFixture) -> None:
    """A key that does not fit the certificate: it is said, and joins go on as before; nothing else is taken either"""
    async with running(founded) as at:
        before = known(at.daemon.coordinator.database)
        keystore.keep(founded.folder / "keys", CONFIG, SigningKey.generate())
        (founded.folder / "server.key").write_bytes(b"no key")
        os.kill(os.getpid(), signal.SIGHUP)
        said = ""
        with trio.fail_after(30):
            while "not reloaded" not in said:
                await trio.testing.wait_all_tasks_blocked(0.01)
                said += "".join(capfd.readouterr())
        assert known(at.daemon.coordinator.database) == before
        assert [key.key_id for key in at.daemon.coordinator.publisher.keys] == [founded.config.key_id]
        await admitted(at, "node-a")
