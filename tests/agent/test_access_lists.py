"""Access lists say of a file what the socket says of a scope: read as acl(5) has it, and by the kernel."""

import os
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.access.access import Access, AccessRule, Readers
from agent.files.access_lists import access_list, list_of, set_list
from wire.peer import OVERFLOW_UID, UnixPeer

USER, GROUP, MASK = 0x02, 0x08, 0x10
AGENT_UID = 1


def lets_read(data: bytes, peer: UnixPeer) -> bool:
    """The algorithm of acl(5), for whoever is not the owner."""
    assert struct.unpack_from("<I", data) == (2,)
    entries = list(struct.iter_unpack("<HHI", data[4:]))
    assert [entry[0] for entry in entries] == sorted(entry[0] for entry in entries)
    (mask,) = (permissions for tag, permissions, _ in entries if tag == MASK)
    for tag, permissions, uid in entries:
        if tag == USER and uid == peer.uid:
            return bool(permissions & mask & 4)
    return any(tag == GROUP and gid in peer.gids and permissions & mask & 4 for tag, permissions, gid in entries)


ids = st.integers(4000, 4004)
scopes = st.sampled_from(["route_policy", "qos_policy", "service_assignment/web", "service_assignment/db"])
patterns = st.one_of(scopes, st.sampled_from(["*", "service_assignment", "service_assignment/*", "route_policy/*"]))
rules = st.builds(
    AccessRule,
    uids=st.frozensets(ids, max_size=2),
    gids=st.frozensets(st.one_of(ids, st.just(OVERFLOW_UID)), max_size=2),
    scopes=st.tuples(patterns),
    expired=st.booleans(),
)
peers = st.builds(
    UnixPeer, st.one_of(ids, st.just(OVERFLOW_UID)), st.frozensets(st.one_of(ids, st.just(OVERFLOW_UID))), st.just(1)
)


@given(st.lists(rules, max_size=5), peers, scopes)
def test_a_list_gives_the_verdict_of_the_socket(given_rules, peer, scope):
    access = Access(tuple(given_rules))
    fresh, over = (access_list(access.readers(scope, expired=expired), 0o640) for expired in (False, True))
    assert lets_read(fresh, peer) is access.may_read(peer, scope)
    assert lets_read(over, peer) is access.may_read_expired(peer, scope)
    assert lets_read(access_list(access.readers_of_all, 0o640), peer) is access.reads_all(peer)


def test_the_kernel_keeps_it_as_it_was_given_and_gives_it_up_again(tmp_path):
    path = tmp_path / "file"
    path.touch(mode=0o600)
    wanted = access_list(Readers(frozenset({4002, 4001}), frozenset({4300})), 0o640)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        assert list_of(descriptor) == b""
        set_list(descriptor, wanted)
        assert list_of(descriptor) == wanted
        assert path.stat().st_mode & 0o777 == 0o640
        set_list(descriptor, b"")
        set_list(descriptor, b"")
        assert list_of(descriptor) == b""
    finally:
        os.close(descriptor)


def test_where_there_are_none_it_is_said(tmp_path):
    descriptor = os.open("/proc/self/status", os.O_RDONLY)
    try:
        assert list_of(descriptor) == b""
        set_list(descriptor, b"")
        with pytest.raises(OSError, match="not supported"):
            set_list(descriptor, access_list(Readers(frozenset({4001})), 0o640))
    finally:
        os.close(descriptor)
