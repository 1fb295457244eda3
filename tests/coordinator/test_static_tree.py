"""The published tree: named by hashes, whole at any time, and good for a node that verifies (rules S2; protocol 1)."""

import hashlib
from pathlib import Path

import pytest

from agent.source import bundle_file, document_place, head_place, increment_place
from coordinator import static_tree
from coordinator.database import Database
from coordinator.refusal import Refused
from coordinator.static_tree import Written
from tests.coordinator.publishing import Press


@pytest.fixture
def press(database: Database) -> Press:
    made = Press.founded(database, "node-a", "node-b")
    made.publish()
    return made


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return tmp_path / "tree"


def named(identifier: str) -> str:
    return hashlib.sha256(identifier.encode()).hexdigest() + ".hfs"


def files(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_a_node_takes_all_it_needs_from_the_tree(press: Press, tmp_path: Path) -> None:
    """rules S7: byte for byte what the coordinator serves."""
    static_tree.publish(press.database, tmp_path / "tree")
    found = files(tmp_path / "tree")
    reader = press.reader("node-b")
    from snapshot.container import ChunkParts
    from snapshot.verify import verify
    from tests.fakes.node import accepted

    def take(data: bytes, kind: str):
        kept: dict[str, bytes] = {}
        verdict = verify(ChunkParts([data]), reader.holder, kind=kind, now=press.now, keep=kept.__setitem__)
        reader.holder = accepted(reader.holder, verdict, kept)
        return verdict

    take(found["trust/1.hfs"], "snapshot")
    head = take(found[f"heads/{named('node-b')}"], "head").head
    for scope in ("node_bootstrap", "node_runtime", *sorted(head.scopes.keys() - {"trust_bundle"})):
        if scope not in reader.holder.active:
            take(found[f"documents/{named(head.scopes[scope].snapshot_id)}"], "snapshot")
    assert reader.holder.roles == {"ingress"}


def test_names_tell_nobody_who_the_nodes_are(press: Press, tree: Path) -> None:
    static_tree.publish(press.database, tree)
    assert not any("node-a" in name for name in files(tree))


def test_publishing_again_writes_what_is_new_and_takes_away_what_is_over(press: Press, tree: Path) -> None:
    static_tree.publish(press.database, tree)
    before = files(tree)
    assert static_tree.publish(press.database, tree) == Written(0, len(before), 0)
    press.apply("kind: DegradedModePolicy\nid: standard\nspec: {allow: [preserve_routes]}")
    press.publish()
    (tree / "documents" / ".half").write_bytes(b"of an interrupted run")
    assert static_tree.publish(press.database, tree) == Written(4, len(before) - 4, 3)
    after = files(tree)
    assert len(after) == len(before)
    assert f"documents/{named(press.listing()['degraded_mode_policy'].snapshot_id)}" in after


def test_a_directory_that_cannot_be_made_is_named(press: Press, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Refused, match="file"):
        static_tree.publish(press.database, tmp_path / "file" / "tree")


def test_files_lie_where_the_coordinator_puts_them() -> None:
    """A node looks for files by the same names."""
    assert head_place("gw-1", (3, 7), 55).file == f"/heads/{static_tree.name_of('gw-1')}"
    assert document_place("abc").file == f"/documents/{static_tree.name_of('abc')}"
    assert bundle_file(7) == f"/trust/7{static_tree.SUFFIX}"
    assert increment_place("route_policy/a", 7).file is None
    assert increment_place("route_policy/a", 7).route == "/v1/increments/route_policy%2Fa?base=7"
    assert head_place("gw-1", (3, 7), 55).route == "/v1/head?generation=7&epoch=3&wait=55"
