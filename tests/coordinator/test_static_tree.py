"""The published tree: named by hashes, whole at any time, and good for a node that verifies (rules S2; protocol 1)."""

import fcntl
import hashlib
import multiprocessing
import os
import shutil
from pathlib import Path

import pytest

from agent.sources.source import bundle_file, document_place, head_place, increment_place, recovery_place
from coordinator.base.refusal import Code, Refused
from coordinator.changes.states import ChangeState, Step
from coordinator.database import documents
from coordinator.database.database import Database
from coordinator.database.documents import container_of
from coordinator.storage import published_tree, static_tree
from coordinator.trust import trust_import
from snapshot.container import ChunkParts
from snapshot.manifest import parse_head
from snapshot.verify import Verified, verify
from tests.coordinator.publishing import Press
from tests.coordinator.test_trust_import import recovery
from tests.fakes.node import accepted
from wire.operators.operator_answers import Written


@pytest.fixture
def press(database: Database) -> Press:
    return Press.published(database, "node-a", "node-b")


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


def test_what_is_coming_is_there_to_be_judged_and_is_what_is_listed_next(press: Press, tree: Path) -> None:
    """The document of a candidate comes before the head that announces it, and goes with the last that does."""
    press.change("kind: DegradedModePolicy\nid: standard\nspec: {allow: [preserve_routes]}")
    press.move(1, Step.OFFERED)
    press.publish()
    static_tree.publish(press.database, tree)
    found, reader = files(tree), press.reader("node-b").follow()
    head = parse_head(documents.head(press.database, "node-b").manifest)
    (coming,) = head.candidates.values()
    kept: dict[str, bytes] = {}
    data = found[f"documents/{named(coming.snapshot_id)}"]
    verdict = verify(ChunkParts([data]), reader.holder, kind="snapshot", now=press.now, keep=kept.__setitem__)
    assert isinstance(verdict, Verified) and verdict.content_hash == coming.content_hash
    press.move(1, Step.RELEASED, ring=1)
    press.publish()
    static_tree.publish(press.database, tree)
    assert press.listing("node-b")["degraded_mode_policy"].snapshot_id == coming.snapshot_id
    assert files(tree)[f"documents/{named(coming.snapshot_id)}"] == data
    press.become(1, ChangeState.DONE)
    press.apply("kind: DegradedModePolicy\nid: standard\nspec: {allow: [continue_services]}")
    press.publish()
    static_tree.publish(press.database, tree)
    assert f"documents/{named(coming.snapshot_id)}" not in files(tree)


def test_names_tell_nobody_who_the_nodes_are(press: Press, tree: Path) -> None:
    static_tree.publish(press.database, tree)
    assert not any("node-a" in name for name in files(tree))


def test_publishing_again_writes_what_is_new_and_takes_away_what_is_over(press: Press, tree: Path) -> None:
    static_tree.publish(press.database, tree)
    before = files(tree)
    assert static_tree.publish(press.database, tree) == Written(0, len(before), 0)
    press.apply("kind: DegradedModePolicy\nid: standard\nspec: {allow: [preserve_routes]}")
    press.publish()
    (tree / "documents" / ".holdfast-half_7.tmp").write_bytes(b"of an interrupted run")
    assert static_tree.publish(press.database, tree) == Written(4, len(before) - 4, 3)
    after = files(tree)
    assert len(after) == len(before)
    assert f"documents/{named(press.listing()['degraded_mode_policy'].snapshot_id)}" in after


ROUTES = "kind: Route\nid: front\nspec: {organization: acme, service: web, match: {hosts: [%s]}}"


def test_an_increment_lies_beside_what_it_leads_to_and_goes_with_it(press: Press, tree: Path) -> None:
    """rules S27: byte for byte what a coordinator answers by its route; of a version that is listed no more, none"""
    hosts = ", ".join(f"{number}.example" for number in range(60))
    press.apply(ROUTES % hosts)
    press.publish()
    before = press.listing()["route_policy"]
    press.apply(ROUTES % f"{hosts}, one-more.example")
    press.publish()
    static_tree.publish(press.database, tree)
    listed = press.listing()["route_policy"]
    path = published_tree.increment_path(listed.snapshot_id, before.config_version)
    kept = documents.increment(press.database, "node-a", "route_policy", before.config_version)
    assert files(tree)[path] == container_of(kept)
    press.apply(ROUTES % "another.example")
    press.publish()
    static_tree.publish(press.database, tree)
    assert path not in files(tree)


def test_a_recovery_lies_there_for_its_node(press: Press, tree: Path) -> None:
    """rules S86: whoever has only files goes back as well"""
    good = press.listing()["route_policy"].config_version
    press.apply(ROUTES % "another.example")
    press.publish()
    signed = recovery(press, "route_policy", good)
    trust_import.add_recovery(press.database, signed, actor="root", now=press.now)
    press.publish()
    static_tree.publish(press.database, tree)
    assert files(tree)[published_tree.recovery_path("node-a", "route_policy")] == signed
    assert press.listing()["route_policy"].config_version == good


FOREIGN = (
    "notes.txt",
    "index.html",
    "documents/thesis.odt",
    "documents/.gitkeep",
    "documents/abcdefgh.hfs",
    f"documents/{'a' * 63}.hfs",
    f"documents/{'A' * 64}.hfs",
    f"heads/{'a' * 64}.hfs.bak",
    "heads/folder/notes.txt",
    f"heads/{'b' * 64}.hfs/notes.txt",
    "heads/7.hfs",
    "trust/latest.hfs",
    "trust/07.hfs",
    f"trust/{'a' * 64}.hfs",
    "trust/.holdfast-half.tmp.txt",
)


def test_what_is_not_ours_is_left_alone(press: Press, tree: Path) -> None:
    """Somebody's own files, folders, and links by names of ours."""
    for name in FOREIGN:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text("mine")
    linked = tree / "documents" / f"{'c' * 64}.hfs"
    linked.symlink_to(tree / "notes.txt")
    ours = {f"heads/{'d' * 64}.hfs", f"documents/{'d' * 64}.hfs", "trust/99.hfs", "heads/.holdfast-half.tmp"}
    for name in ours:
        (tree / name).write_text("of long ago")
    written = static_tree.publish(press.database, tree)
    assert written.removed == len(ours) and not ours & files(tree).keys()
    assert all((tree / name).read_text() == "mine" for name in FOREIGN) and linked.is_symlink()
    assert static_tree.publish(press.database, tree) == Written(0, written.new, 0)


@pytest.mark.parametrize("folder", ["trust", "documents", "heads"])
def test_a_damaged_file_is_written_anew(press: Press, tree: Path, folder: str) -> None:
    """Cut off, of the same length, gone, or a link to what somebody else writes."""
    static_tree.publish(press.database, tree)
    good = files(tree)
    path = next((tree / folder).iterdir())
    data = path.read_bytes()
    for harm in (b"", data[:-1], b"x" * len(data), None):
        path.unlink() if harm is None else path.write_bytes(harm)
        assert static_tree.publish(press.database, tree) == Written(1, len(good) - 1, 0)
        assert files(tree) == good
    (tree / "copy").write_bytes(data)
    path.unlink()
    path.symlink_to(tree / "copy")
    assert static_tree.publish(press.database, tree).new == 1
    assert not path.is_symlink() and path.read_bytes() == (tree / "copy").read_bytes() == data


def announced(head: bytes) -> set[str]:
    """The documents that a head in the tree lists, and its bundle."""
    parts = ChunkParts([head])
    parts.opening()
    listed = parse_head(parts.manifest()).scopes.items()
    return {
        f"trust/{each.config_version}.hfs" if scope == "trust_bundle" else f"documents/{named(each.snapshot_id)}"
        for scope, each in listed
    }


def dies_at(number: int, url: str, tree: Path) -> None:
    """In a process that is gone before its n-th sync, rename or removal: no clean-up runs."""
    left = [number]

    def counted(function):
        def dying(*arguments, **options):
            left[0] -= 1
            if left[0] == 0:
                os._exit(9)
            return function(*arguments, **options)

        return dying

    os.fsync, os.replace, os.unlink = map(counted, (os.fsync, os.replace, os.unlink))
    static_tree.publish(Database(url), tree)


def test_killed_anywhere_it_can_be_run_again(database: Database, database_url: str, tmp_path: Path, tree: Path) -> None:
    """rules S2: at any time every head in the tree finds all that it announces, whole."""
    press = Press.published(database, "node-a")
    static_tree.publish(press.database, tree)
    before = files(tree)
    press.apply("kind: DegradedModePolicy\nid: standard\nspec: {allow: [preserve_routes]}")
    press.add_bundle()
    press.publish()
    static_tree.publish(press.database, tmp_path / "whole")
    after = files(tmp_path / "whole")
    context = multiprocessing.get_context("fork")
    for number in range(1, 99):
        place = tmp_path / str(number)
        shutil.copytree(tree, place)
        process = context.Process(target=dies_at, args=(number, database_url, place))
        process.start()
        process.join()
        found = files(place)
        for name, data in found.items():
            assert data in (before.get(name), after.get(name)) or ".holdfast-" in name
            assert not name.startswith("heads/") or announced(data) <= found.keys()
        static_tree.publish(press.database, place)
        assert files(place) == after
        if process.exitcode == 0:
            break
        assert process.exitcode == 9
    assert number > 10


def test_what_is_renamed_is_durable_before_and_its_name_after(
    press: Press, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """threats D-24: a head is not there before what it announces would outlive a loss of power."""
    steps: list[tuple[str, str]] = []
    fsync, replace = os.fsync, os.replace

    def synced(descriptor: int) -> None:
        fsync(descriptor)
        steps.append(("sync", str(Path(f"/proc/self/fd/{descriptor}").readlink())))

    def renamed(source: Path, target: Path) -> None:
        assert steps[-1] == ("sync", str(source))
        replace(source, target)
        steps.append(("rename", str(target)))

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", renamed)
    static_tree.publish(press.database, tree)
    names = [Path(name) for step, name in steps if step == "rename"]
    assert len(names) == len(files(tree))
    first_head = min(steps.index(("rename", str(each))) for each in names if each.parent.name == "heads")
    for each in names:
        rest = steps[steps.index(("rename", str(each))) :]
        assert ("sync", str(each.parent)) in (rest if each.parent.name == "heads" else rest[: first_head - len(steps)])


def test_a_file_that_cannot_be_written_is_named(press: Press, tree: Path) -> None:
    """A folder stands where a head is to stand."""
    taken = tree / "heads" / published_tree.name_of("node-a")
    taken.mkdir(parents=True)
    with pytest.raises(Refused, match=taken.name) as caught:
        static_tree.publish(press.database, tree)
    assert caught.value.code is Code.BAD_REQUEST and caught.value.remedy
    assert not list(tree.rglob(".holdfast-*"))
    taken.rmdir()
    static_tree.publish(press.database, tree)
    assert taken.is_file()


def test_two_at_once_do_not_take_away_what_the_other_writes(press: Press, tree: Path) -> None:
    tree.mkdir()
    descriptor = os.open(tree, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with pytest.raises(Refused) as caught:
            static_tree.publish(press.database, tree)
    finally:
        os.close(descriptor)
    assert caught.value.code is Code.CONFLICT
    assert static_tree.publish(press.database, tree).new


def test_a_directory_that_cannot_be_made_is_named(press: Press, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Refused, match="file"):
        static_tree.publish(press.database, tmp_path / "file" / "tree")


def test_files_lie_where_the_coordinator_puts_them() -> None:
    """A node looks for files by the same names."""
    assert head_place("gw-1", (3, 7), 55).file == f"/heads/{published_tree.name_of('gw-1')}"
    assert document_place("abc").file == f"/documents/{published_tree.name_of('abc')}"
    assert bundle_file(7) == f"/trust/7{published_tree.SUFFIX}"
    assert increment_place("route_policy/a", 7, "abc").file == f"/{published_tree.increment_path('abc', 7)}"
    assert increment_place("route_policy/a", 7, "abc").route == "/v1/increments/route_policy%2Fa?base=7"
    assert recovery_place("gw-1", "route_policy/a").file == f"/{published_tree.recovery_path('gw-1', 'route_policy/a')}"
    assert recovery_place("gw-1", "route_policy/a").route == "/v1/recoveries/route_policy%2Fa"
    assert head_place("gw-1", (3, 7), 55).route == "/v1/head?generation=7&epoch=3&wait=55&protocol=1"


def test_what_nodes_share_lies_there_once(press: Press, tmp_path: Path) -> None:
    """Files and bytes are those of one node and of the other's own documents."""
    tree, text = tmp_path / "shared", "hello " * 10_000
    files = f"{{motd: {{text: '{text}'}}}}"
    press.apply(f"{{kind: Config, id: edge, spec: {{to: {{nodes: [node-a, node-b]}}, files: {files}}}}}")
    press.publish()
    static_tree.publish(press.database, tree)
    listings = {node_id: press.listing(node_id) for node_id in ("node-a", "node-b")}
    shared = {entry.snapshot_id for listing in listings.values() for entry in listing.values()}
    shared -= {listing["trust_bundle"].snapshot_id for listing in listings.values()}
    assert listings["node-a"]["config/edge"] == listings["node-b"]["config/edge"]
    files = list((tree / "documents").iterdir())
    assert {each.name for each in files} == {published_tree.name_of(snapshot_id) for snapshot_id in shared}
    assert sum(each.stat().st_size > len(text) for each in files) == 1
    assert sum(each.stat().st_size for each in files) < 2 * len(text)
    assert len(files) == len(shared) == sum(map(len, listings.values())) - 2 - 1  # two bundles, and the Config once
