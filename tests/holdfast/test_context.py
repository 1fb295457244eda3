"""What a reader knows, from a file."""

import json

import pytest

from holdfast.node.context import BadContext, load
from snapshot.container import ChunkParts
from snapshot.manifest import Revocations
from snapshot.reasons import Reason, Rejected
from snapshot.verify import verify
from tests.fakes.cluster import NOW, Cluster, key
from tests.fakes.node import Node


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def written(cluster, tmp_path):
    """Write a context of a node of this cluster, with these members changed."""
    (tmp_path / "contexts").mkdir()
    (tmp_path / "bundle.hfs").write_bytes(cluster.first_bundle.to_bytes())
    node: Node = cluster.node("core_mesh")

    def write(**members):
        path = tmp_path / "contexts" / "node.json"
        context = {
            "cluster_id": node.holder.cluster_id,
            "node_id": node.holder.node_id,
            "roles": ["core_mesh"],
            "organization_ids": ["amber", "sable"],
            "kind": "snapshot",
            "trust_bundle": "bundle.hfs",
        }
        path.write_text(json.dumps(context | members))
        return path

    return write


def judged(document, path):
    holder, kind = load(path)
    return verify(ChunkParts(document.chunks()), holder, kind=kind, now=NOW)


def refusal(document, path):
    with pytest.raises(Rejected) as refused:
        judged(document, path)
    return refused.value.reason


def test_what_the_held_head_revoked_stays_revoked(cluster, written, tmp_path):
    """rules S82, S62: a key revoked by the last head; a head that knows less is a rollback."""
    head = cluster.head(revocations=Revocations(7, key_ids=frozenset({key("config-1").key_id})))
    (tmp_path / "head.hfs").write_bytes(head.to_bytes())
    path = written(active={"head": "head.hfs"})
    assert refusal(cluster.snapshot(keys=[key("config-1")]), path) is Reason.KEY_REVOKED
    assert judged(cluster.snapshot(keys=[key("config-2")]), path)
    older = cluster.head(revocations=Revocations(6), keys=[key("config-2")])
    assert refusal(older, written(active={"head": "head.hfs"}, kind="head")) is Reason.ROLLBACK


def test_sections_are_read_where_they_lie(cluster, written, tmp_path):
    """Of every width of a length: the offsets count back from the end of the file."""
    sections = {"a": "x", "b": "y" * 300, "c": ["z" * 60_000, "z" * 10_000], "d": 1}
    held = cluster.snapshot(sections)
    (tmp_path / "held.hfs").write_bytes(held.to_bytes())
    holder, _ = load(written(active={"route_policy": "held.hfs"}))
    active = holder.active["route_policy"]
    assert tuple(active.read(name) for name in sorted(sections)) == held.sections


@pytest.mark.parametrize(
    ("members", "says"),
    [
        ({"cluster": "x"}, "unknown member 'cluster'"),
        ({"kind": "bundle"}, "kind"),
        ({"cluster_id": "Upper"}, "cluster_id"),
        ({"roles": "core_mesh"}, "roles"),
        ({"trust_bundle": "none.hfs"}, "none.hfs: No such file"),
        ({"trust_bundle": "contexts/node.json"}, "bad_container"),
        ({"active": []}, "active"),
        ({"active": {"head": "bundle.hfs"}}, "bad_envelope"),
        ({"recovery": [1]}, "recovery: not a path"),
        ({"floors": {"route_policy": {}}}, "floors: route_policy has exactly"),
        ({"used_nonces": [""]}, "used_nonces"),
        ({"root_keys": {}, "root_threshold": 1}, "root_keys"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_a_context_that_cannot_be_used_names_the_member(written, members, says):
    """rules P10: nothing is guessed."""
    with pytest.raises(BadContext, match=says):
        load(written(**members))
