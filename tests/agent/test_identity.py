"""The node's key and certificate: one file, made once, replaced as a whole."""

import contextlib
import stat
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from agent.config.configuration import NodeTable
from agent.enrolment.identity import FILE, IdentityFile, renew_at
from store.base.disk import Disk
from tests.fakes import rsa_keys
from tests.store.dying import FailingDisk
from wire.certificate import BadCertificateError, Certificate, is_proven, make_identity, prove
from wire.tls_contexts import server_context

NOW = 1_800_000_000.0
NODE = NodeTable(cluster_id="c", node_id="node-a", direct_url="https://node-a.example:7443")


def pem(key, encryption=None):
    encryption = encryption or serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)


def ec_key(curve):
    return pem(ec.generate_private_key(curve))


def rsa_key():
    return pem(rsa_keys.key(2048))


def encrypted_key():
    return pem(ec.generate_private_key(ec.SECP256R1()), serialization.BestAvailableEncryption(b"word"))


@pytest.fixture
def file(tmp_path):
    for name in ("identity", "tmp"):
        (tmp_path / name).mkdir()
    return IdentityFile(tmp_path / "identity", tmp_path / "tmp", Disk())


def test_it_is_made_once_and_is_the_agents_alone(file):
    """rules K48, L40"""
    made = file.ensure(NODE, NOW)
    assert file.ensure(NODE, NOW + 5) == made
    assert stat.S_IMODE((file.folder / FILE).stat().st_mode) == 0o600
    certificate = Certificate.read(made.der)
    assert certificate.names == ("node-a", "node-a.example")
    assert not certificate.is_authority
    assert is_proven(made.der, b"body", prove(made.key_pem, b"body"))
    assert server_context(file.identity.read()), "TLS takes the one file for both"


def test_it_is_renewed_at_its_share(file):
    pair = file.ensure(NODE, NOW)
    certificate = Certificate.read(pair.der)
    at = renew_at(pair, NODE)
    assert 0.79 < (at - certificate.not_before) / (certificate.not_after - certificate.not_before) < 0.81


def test_a_successor_is_shown_again_until_it_succeeds(file):
    """rules J12: a retry after a lost answer brings the same certificate"""
    first = file.ensure(NODE, NOW)
    successor = file.successor(NODE, NOW)
    assert file.successor(NODE, NOW) == successor != first
    assert file.present() == first
    file.succeed()
    assert file.present() == successor
    assert file.successor(NODE, NOW) != successor


@pytest.mark.parametrize("at", range(1, 5))
def test_a_crash_leaves_the_old_pair_or_the_new_one(file, at):
    """rules A3"""
    old = file.ensure(NODE, NOW)
    new = file.successor(NODE, NOW)
    disk = FailingDisk()
    disk.fail(at, OSError(5, "gone"))
    broken = IdentityFile(file.folder, file.temporary, disk)
    with contextlib.suppress(OSError):
        broken.succeed()
    assert file.present() in (old, new)


def test_a_damaged_file_is_never_replaced_silently(file):
    (file.folder / FILE).write_bytes(b"nothing of use")
    with pytest.raises(BadCertificateError, match=FILE):
        file.ensure(NODE, NOW)


def test_a_candidate_is_the_identity_once_it_was_admitted(file):
    """rules A2, J12: the same at each attempt; until then there is none"""
    candidate = file.candidate(NODE, NOW)
    assert file.candidate(NODE, NOW) == candidate
    assert file.present() is None
    file.admit()
    assert file.present() == candidate == file.candidate(NODE, NOW)
    successor = file.successor(NODE, NOW)
    file.admit()
    assert file.present() == candidate != successor, "a renewal is another matter"


# ---- the key as a credential


def p256(tmp_path, name="holdfast.node-key"):
    path = tmp_path / name
    path.write_bytes(make_identity("somebody", NOW).key_pem)
    return path


def test_a_given_key_is_used_and_stays_where_it_is(file, tmp_path):
    """rules L40, K48: identity/ holds a reference, the key is the credential's"""
    given = p256(tmp_path)
    held = replace(file, given_key=given)
    pair = held.ensure(NODE, NOW)
    assert is_proven(pair.der, b"body", prove(given.read_bytes(), b"body"))
    assert b"PRIVATE" not in (file.folder / FILE).read_bytes()
    assert held.present() == pair
    assert (held.identity.certificate, held.identity.key) == (file.folder / FILE, given)
    assert server_context(held.identity.read()), "TLS takes both"
    successor = held.successor(NODE, NOW)
    held.succeed()
    assert held.present() == successor != pair
    assert b"PRIVATE" not in (file.folder / FILE).read_bytes()


def test_a_given_key_that_is_gone_or_another_one_is_said(file, tmp_path):
    """rules L40: no new identity is made where one stands"""
    held = replace(file, given_key=p256(tmp_path))
    held.ensure(NODE, NOW)
    with pytest.raises(BadCertificateError, match="the service was not given it"):
        file.ensure(NODE, NOW)
    with pytest.raises(BadCertificateError, match="another key than that of"):
        replace(file, given_key=p256(tmp_path, "other")).ensure(NODE, NOW)
    with pytest.raises(BadCertificateError, match="No such file"):
        replace(file, given_key=tmp_path / "gone").ensure(NODE, NOW)
    assert held.present() is not None


def test_a_key_of_its_own_stays_until_the_renewal(file, tmp_path):
    """rules X8: who is a member by one key is not given another underway"""
    own = file.ensure(NODE, NOW)
    held = replace(file, given_key=p256(tmp_path))
    assert held.ensure(NODE, NOW) == own
    assert held.identity.key == file.folder / FILE
    held.successor(NODE, NOW)
    held.succeed()
    assert held.identity.key == held.given_key
    assert held.present().key_pem == held.given_key.read_bytes()


@pytest.mark.parametrize("content", [b"", b"nonsense", ec_key(ec.SECP384R1()), rsa_key(), encrypted_key()])
def test_what_is_no_key_for_a_node(file, tmp_path, content):
    """rules K48"""
    given = tmp_path / "holdfast.node-key"
    given.write_bytes(content)
    with pytest.raises(BadCertificateError, match=r"holdfast\.node-key: .*key"):
        replace(file, given_key=given).ensure(NODE, NOW)
    assert not (file.folder / FILE).exists()
