"""The node's key and certificate: one file, made once, replaced as a whole."""

import contextlib
import stat

import pytest

from agent.configuration import NodeTable
from agent.identity import FILE, IdentityFile, renew_at
from store.disk import Disk
from tests.store.dying import FailingDisk
from wire.certificate import BadCertificateError, Certificate, is_proven, prove
from wire.contexts import server_context

NOW = 1_800_000_000.0
NODE = NodeTable(cluster_id="c", node_id="node-a", direct_url="https://node-a.example:7443")


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
    assert server_context(file.identity), "TLS takes the one file for both"


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
