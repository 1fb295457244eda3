"""Who of the peers may have what: every message and every kind of asker."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.peers.entitlement import (
    ForEveryMember,
    MapMember,
    WantedDocument,
    WantedHead,
    WantedSection,
    may_have,
    near_neighbours,
)
from snapshot.manifest import Head, Revocations, ScopeVersion
from store.relay import digest_of


def listed(snapshot_id, content="sha256:" + "0" * 64):
    return ScopeVersion(1, 1, content, snapshot_id)


def head(*, coming=(), **scopes):
    named = {scope: listed(id_) for scope, id_ in scopes.items()}
    return Head(1, 15, Revocations(), named, {scope: listed(id_) for scope, id_ in coming})


def member(node_id, site="ulm", lists=None, organizations=()):
    return MapMember(node_id, digest_of(node_id), site, lists, frozenset(organizations))


def document(snapshot_id, scope="route_policy", subject="*", organizations=("acme",), content="sha256:" + "0" * 64):
    return WantedDocument(snapshot_id, scope, subject, content, frozenset(organizations))


B = member("b", "ulm", head(route_policy="r-1", node_runtime="of-b"), ["acme"])
C = member("c", "ulm", head(route_policy="r-2", qos_policy="q-globex", node_runtime="of-c"), ["acme", "globex"])
D = member("d", "bonn", head(route_policy="r-3", node_runtime="of-d"), ["acme"])
NEW = member("new", "ulm")  # has shown nothing, and no head of it is here
ALONE = member("alone", "", head(route_policy="r-1"), ["acme"])
STRANGER = member("stranger", "ulm", head(route_policy="r-1"), ["acme"])
ALL = [B, C, D, NEW, ALONE]

SHARED_OF_B, SHARED_OF_C, SHARED_OF_D = document("r-1"), document("r-2"), document("r-3")
OF_GLOBEX = document("q-globex", "qos_policy", organizations=("globex",))
OF_C = document("of-c", "node_runtime", "c")
OF_D = document("of-d", "node_runtime", "d")
OF_C_OF_BOTH = document("of-c", "node_runtime", "c", ("acme", "globex"))
UNLISTED = document("r-9")
MISNAMED = document("r-1", "qos_policy")  # an id that is listed, in another scope
FOR_ANOTHER = document("r-1", subject="d")  # listed, and for somebody else
BUNDLE = document("trust", "trust_bundle", organizations=())

CASES = [
    # what, who gets it, who does not
    (ForEveryMember(), [B, C, D, NEW, ALONE], [STRANGER]),
    (WantedHead(B.digest), [B, C, NEW], [D, ALONE, STRANGER]),
    (WantedHead(D.digest), [D], [B, C, NEW, ALONE, STRANGER]),
    (WantedHead(ALONE.digest), [ALONE], [B, C, D, NEW, STRANGER]),
    (WantedHead(digest_of("nobody")), [], [*ALL, STRANGER]),
    (SHARED_OF_B, [B, C, ALONE], [D, NEW, STRANGER]),
    (SHARED_OF_C, [B, C], [D, NEW, ALONE, STRANGER]),
    (SHARED_OF_D, [D], [B, C, NEW, ALONE, STRANGER]),
    (OF_GLOBEX, [C], [B, D, NEW, ALONE, STRANGER]),
    (OF_C, [B, C], [D, NEW, ALONE, STRANGER]),
    (OF_C_OF_BOTH, [C], [B, D, NEW, ALONE, STRANGER]),
    (OF_D, [D], [B, C, NEW, ALONE, STRANGER]),
    (UNLISTED, [], [*ALL, STRANGER]),
    (MISNAMED, [], [*ALL, STRANGER]),
    (FOR_ANOTHER, [], [*ALL, STRANGER]),
    (BUNDLE, [], [*ALL, STRANGER]),
    (WantedSection((SHARED_OF_B,)), [B, C, D, ALONE], [NEW, STRANGER]),  # by content, which is the same in all of these
    (WantedSection((document("x", content="sha256:" + "1" * 64),)), [], [*ALL, STRANGER]),
    (WantedSection((OF_GLOBEX,)), [C], [B, D, NEW, ALONE, STRANGER]),
    (WantedSection((OF_GLOBEX, SHARED_OF_B)), [B, C, D, ALONE], [NEW, STRANGER]),
    (WantedSection(()), [], [*ALL, STRANGER]),
]


@pytest.mark.parametrize(("wanted", "gets", "does_not"), CASES)
def test_each_message_to_each_kind_of_asker(wanted, gets, does_not):
    """rules J45, K5: scope, organizations and subject; revoked and foreign ones are no members of the map at all"""
    assert [asker.node_id for asker in gets if not may_have(asker, wanted, ALL)] == []
    assert [asker.node_id for asker in does_not if may_have(asker, wanted, ALL)] == []


def test_what_is_coming_may_be_fetched_before_it_is_run():
    asker = member("b", lists=head(coming=[("route_policy", "r-4")]))
    assert may_have(asker, document("r-4"), [asker])
    assert not may_have(asker, document("r-5"), [asker])


def test_who_has_no_site_relays_for_nobody():
    other = member("other", "")
    assert near_neighbours(ALONE, [ALONE, other]) == []


ids = st.sampled_from(["r-1", "r-2", "of-c", "q-globex"])
names = st.sampled_from(["b", "c", "d"])


@given(
    st.builds(
        document,
        ids,
        st.sampled_from(["route_policy", "qos_policy", "node_runtime"]),
        st.sampled_from(["*", "b", "c", "d"]),
        st.sets(st.sampled_from(["acme", "globex"])),
    ),
    names,
)
def test_nobody_is_given_what_no_signed_head_lists_for_a_node_of_his_site(wanted, name):
    """rules S3: for all documents, what goes out is listed for the asker or for a neighbour whom he may relay for"""
    asker = {"b": B, "c": C, "d": D}[name]
    if may_have(asker, wanted, ALL):
        near = [asker, *near_neighbours(asker, ALL)]
        lists = [each for each in near if each.head and wanted.snapshot_id in _ids(each.head)]
        assert lists
        assert wanted.subject in ("*", *(each.node_id for each in lists))
        assert asker in lists or wanted.organizations <= asker.organizations


def _ids(of):
    return {entry.snapshot_id for entry in of.scopes.values()}
