"""What nodes, and what coordinators and storage nodes, say to each other: one class a message for both sides."""

import pytest

from wire.messages import BadMessageError
from wire.peers.peer_messages import HeldPair, PeerInventory, PeerStanding
from wire.peers.storage_messages import FileListing, KeptFile

DIGEST = "ab" * 32


@pytest.mark.parametrize(
    "message",
    [
        PeerInventory("prod", 3, {DIGEST: HeldPair(1, 7)}),
        PeerStanding(b"head", b"runtime"),
        PeerStanding(b"head"),
        KeptFile(DIGEST),
        FileListing({f"heads/{DIGEST}.hfs": DIGEST}, is_more=True),
    ],
)
def test_it_is_read_as_it_was_said(message):
    """rules J45"""
    assert type(message).parse(message.to_bytes()) == message


def test_a_pair_tells_which_head_is_newer():
    """rules K32: the epoch first"""
    assert HeldPair(2, 1).pair > HeldPair(1, 9).pair


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (PeerInventory, b'{"cluster_id":"prod","trust_bundle_version":3,"heads":{"node-a":{"authority_epoch":1}}}'),
        (PeerInventory, b'{"cluster_id":"prod","trust_bundle_version":-1,"heads":{}}'),
        (PeerStanding, b'{"head":"no base64"}'),
        (PeerStanding, b'{"head":"","roles":["core_mesh"]}'),
        (KeptFile, b'{"sha256":"x"}'),
        (FileListing, b'{"files":{},"is_more":1}'),
    ],
)
def test_out_of_form(kind, data):
    with pytest.raises(BadMessageError):
        kind.parse(data)
