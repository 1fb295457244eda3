"""Root in another account's directory: with that account's rights, whatever is put there meanwhile (rules J34, P7)."""

import os
from pathlib import Path

import pytest

from coordinator.keys import atomic_files, keystore
from coordinator.keys.acting import as_owner_of
from coordinator.keys.atomic_files import clear_up, note_in, plain_file, together
from coordinator.keys.signing_key import SigningKey, UnusableKeyError
from coordinator.setup import initialise
from coordinator.setup.cluster_request import ClusterRequest
from coordinator.setup.initialise import NOTE
from snapshot.bundle import CONFIG
from tests.coordinator.test_initialise import NOW

SERVICE = 4321
pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be another account"),
]


@pytest.fixture
def state(public_folder: Path) -> Path:
    """The service's own directory, as the package makes it."""
    made = public_folder / "state"
    made.mkdir(mode=0o700)
    os.chown(made, SERVICE, SERVICE)
    return made


@pytest.fixture
def etc(public_folder: Path) -> Path:
    """Root's, with a file that nobody else may touch."""
    made = public_folder / "etc"
    made.mkdir(mode=0o755)
    (made / "ca.pem").write_bytes(b"of root")
    return made


@pytest.fixture
def wanted(state: Path, etc: Path, public_folder: Path) -> ClusterRequest:
    """What `holdfastctl init` makes of its options there."""
    return ClusterRequest(
        "prod", "coord-1", "https://coord.example:7443", f"sqlite:///{state}/coordinator.db", state,
        public_folder / "roots", configuration=(etc / "coordinator.toml", "text"), notes=etc,
    )  # fmt: skip


def swap(directory: Path, target: Path) -> None:
    """As the service: its directory is a link to another one, from one moment to the next."""
    if directory.exists():
        directory.rename(directory.with_name(f"{directory.name}.aside"))
    directory.symlink_to(target)
    os.chown(directory, SERVICE, SERVICE, follow_symlinks=False)


def initialise_it(wanted: ClusterRequest) -> initialise.MadeCluster:
    return initialise.initialise(wanted, actor="uid:0", now=NOW)


def owners(directory: Path) -> set[int]:
    return {each.lstat().st_uid for each in directory.rglob("*")}


def content(directory: Path) -> dict[str, tuple[bytes, int]]:
    return {each.name: (each.read_bytes(), each.lstat().st_uid) for each in directory.iterdir() if each.is_file()}


def who() -> tuple[int, int, list[int]]:
    return os.geteuid(), os.getegid(), os.getgroups()


def test_root_has_that_accounts_rights_and_then_its_own_again(state: Path, etc: Path) -> None:
    before = who()
    with pytest.raises(PermissionError), as_owner_of(state / "not/there/yet"):
        assert who() == (SERVICE, SERVICE, [])
        (etc / "ca.pem").unlink()
    assert who() == before
    with as_owner_of(etc):
        assert who() == before


def test_what_leads_there_by_links_of_root_is_looked_at_too(state: Path, etc: Path, public_folder: Path) -> None:
    """/srv/holdfast -> ../var/state: whoever owns the end owns what is below."""
    (etc / "led").symlink_to("../state/keys")
    (public_folder / "again").symlink_to(etc / "led")
    with as_owner_of(public_folder / "again/deeper"):
        assert who()[0] == SERVICE
    (state / "back").symlink_to(etc)
    with as_owner_of(state / "back"):
        assert who()[0] == SERVICE, "the way leads through the service's directory"


def test_a_ring_of_links_is_refused(public_folder: Path) -> None:
    (public_folder / "ring").symlink_to("ring")
    with pytest.raises(OSError, match="too many links"), as_owner_of(public_folder / "ring"):
        raise AssertionError("unreachable")


def test_init_gives_the_service_what_is_its_own_and_keeps_the_rest(wanted: ClusterRequest) -> None:
    made = initialise_it(wanted)
    assert owners(wanted.state) == {SERVICE}
    assert owners(wanted.root_keys) == {0}
    assert made.configuration is not None and made.configuration.lstat().st_uid == 0
    assert not list(wanted.state.glob("*.incomplete")) + list(made.configuration.parent.glob("*.incomplete"))


@pytest.mark.parametrize("name", ["keys", "tls"])
def test_init_writes_nothing_where_the_services_link_leads(wanted: ClusterRequest, etc: Path, name: str) -> None:
    """The service would have root make or give away files in a directory of its choice."""
    (etc / "ca.pem").rename(etc / "root.pem")  # nothing is in the way of what would be written
    before = content(etc)
    swap(wanted.state / name, etc)
    with pytest.raises((UnusableKeyError, OSError)):
        initialise_it(wanted)
    assert content(etc) == before
    assert not wanted.root_keys.exists()
    (wanted.state / name).unlink()
    assert initialise_it(wanted).cluster_id == "prod"


@pytest.mark.parametrize("end", ["", ".lock"])
def test_init_opens_no_database_where_the_services_link_leads(wanted: ClusterRequest, etc: Path, end: str) -> None:
    before, link = content(etc), wanted.state / f"coordinator.db{end}"
    link.symlink_to(etc / "ca.pem")
    with pytest.raises(OSError):
        initialise_it(wanted)
    assert content(etc) == before
    link.unlink(missing_ok=True)
    assert initialise_it(wanted).cluster_id == "prod"


def test_a_directory_that_is_swapped_while_files_are_written(state: Path, etc: Path) -> None:
    """Between the look and the write, and between the write and what was the change of owner."""
    before = content(etc)

    def swapped_then_written(path: Path) -> None:
        swap(state / "keys", etc)
        plain_file(b"key")(path)

    note = note_in(state, etc, NOTE)
    assert note.parent == etc, "root's note lies where the service cannot move it"
    with (
        pytest.raises(PermissionError),
        together(note, [(state / "keys/one.pem", swapped_then_written)], lambda: False),
    ):
        raise AssertionError("unreachable")
    assert content(etc) == before


def test_a_directory_that_is_swapped_before_files_are_removed(state: Path, etc: Path) -> None:
    """A note of root's own, of an interrupted command, whose names lead to root's files now."""
    before = content(etc)
    (state / "tls").mkdir()
    os.chown(state / "tls", SERVICE, SERVICE)
    note = etc / NOTE
    plain_file(f"{state / 'tls/ca.pem'}\nend".encode())(note)
    swap(state / "tls", etc)
    clear_up(note, lambda: False)
    assert content(etc) == before


def test_what_root_removes_it_removes_as_the_directorys_owner(
    state: Path, etc: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last look at the name goes well, and the directory is swapped after it."""
    before = content(etc)
    (state / "tls").mkdir()
    os.chown(state / "tls", SERVICE, SERVICE)
    note = etc / NOTE
    plain_file(f"{state / 'tls/ca.pem'}\nend".encode())(note)
    looked = atomic_files._without_links

    def swapped_after(path: Path) -> Path:
        found = looked(path)
        swap(state / "tls", etc)
        return found

    monkeypatch.setattr(atomic_files, "_without_links", swapped_after)
    with pytest.raises(PermissionError):
        clear_up(note, lambda: False)
    assert content(etc) == {**before, NOTE: (note.read_bytes(), 0)}


def test_a_note_of_the_service_is_not_even_read(wanted: ClusterRequest, etc: Path) -> None:
    planted = wanted.state / NOTE
    planted.write_text(f"{etc / 'ca.pem'}\nend")
    os.chown(planted, SERVICE, SERVICE)
    initialise_it(wanted)
    assert (etc / "ca.pem").read_bytes() == b"of root"


def test_a_hard_link_is_not_given_away(state: Path, etc: Path) -> None:
    """The service lays a second name of root's file where a key will be: it is neither written nor given away."""
    key = SigningKey.generate()
    keys = state / "keys"
    keys.mkdir(mode=0o700)
    os.chown(keys, SERVICE, SERVICE)
    (keys / keystore.file_name(CONFIG, key)).hardlink_to(etc / "ca.pem")
    with pytest.raises(UnusableKeyError, match="is there already"):
        keystore.keep(keys, CONFIG, key)
    assert content(etc) == {"ca.pem": (b"of root", 0)}
    kept = keystore.keep(keys, CONFIG, SigningKey.generate())
    assert kept.lstat().st_uid == SERVICE and b"PRIVATE" in kept.read_bytes()


def test_interrupted_root_leaves_nothing_of_the_services_or_its_own(wanted: ClusterRequest) -> None:
    """rules J34: the note in root's directory names both, and each goes as its owner's"""
    (wanted.state / "tls").mkdir(mode=0o500)  # the files of `keys` and the root keys come before it
    os.chown(wanted.state / "tls", SERVICE, SERVICE)
    with pytest.raises(PermissionError):
        initialise_it(wanted)
    assert not wanted.root_keys.exists() and not (wanted.state / "keys").exists()
    assert wanted.notes is not None and content(wanted.notes) == {"ca.pem": (b"of root", 0)}
    (wanted.state / "tls").rmdir()
    assert initialise_it(wanted).cluster_id == "prod"
