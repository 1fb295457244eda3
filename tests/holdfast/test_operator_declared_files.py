"""What a declared directory holds is read, or refused by name: what is passed over silently, `--prune` would delete."""

import contextlib
import os
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from coordinator.declared.resources import DeclaredProblem, InvalidResources
from holdfast.ctl import apply, declared_files
from holdfast.ctl.socket import REFUSED

TEXT = "kind: Organization\nid: a\n"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    made = tmp_path / "fabric"
    made.mkdir()
    (made / "a.yaml").write_text(TEXT)
    return made


def names(*places: Path) -> list[str]:
    return [Path(each).name for each in declared_files.read(places)]


def problems(*places: Path) -> list[DeclaredProblem]:
    with pytest.raises(InvalidResources) as caught:
        declared_files.read(places)
    assert all(each.field and each.message and each.remedy for each in caught.value.problems)
    return list(caught.value.problems)


def test_every_yaml_file_below_is_read(place: Path) -> None:
    (place / "sub.yaml" / "deep").mkdir(parents=True)
    for name in ("sub.yaml/deep/b.yml", "sub.yaml/C.YAML"):
        (place / name).write_text(TEXT)
    for name in ("README.md", "a.yaml~", "a.yaml.bak", "yaml"):
        (place / name).write_bytes(b"\xff")
    os.mkfifo(place / "queue")
    assert names(place) == ["a.yaml", "C.YAML", "b.yml"]
    assert declared_files.read([place])[str(place / "a.yaml")] == TEXT


def test_hidden_files_and_directories_are_passed_over(place: Path) -> None:
    """An editor's lock is a link that leads nowhere, and version control keeps YAML of its own."""
    (place / ".git").mkdir()
    (place / ".git" / "b.yaml").write_text(TEXT)
    (place / ".pre-commit-config.yaml").write_text("repos: []")
    (place / ".#a.yaml").symlink_to("somebody@somewhere.1234")
    assert names(place) == ["a.yaml"]
    assert names(place / ".pre-commit-config.yaml") == [".pre-commit-config.yaml"]
    assert names(place / ".git") == ["b.yaml"]


def test_a_file_that_is_named_is_read_whatever_it_is_called(place: Path) -> None:
    (place / "state.txt").write_text(TEXT)
    assert names(place / "state.txt", place) == ["state.txt", "a.yaml"]
    assert names(place, place / "a.yaml") == ["a.yaml"]


def test_links_are_followed(place: Path, tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "b.yaml").write_text(TEXT)
    (place / "c.yaml").symlink_to(tmp_path / "shared" / "b.yaml")
    (place / "shared").symlink_to(tmp_path / "shared")
    (place / "again").symlink_to(tmp_path / "shared")
    (place / "d.txt").symlink_to(tmp_path / "shared" / "b.yaml")
    assert names(place) == ["a.yaml", "b.yaml", "c.yaml", "b.yaml"]


def dangling(path: Path) -> None:
    path.symlink_to("gone.yaml")


def listening(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        here = Path.cwd()
        os.chdir(path.parent)  # the address of a Unix socket is short
        try:
            one.bind(path.name)
        finally:
            os.chdir(here)


@pytest.mark.parametrize(
    ("make", "field", "message"),
    [
        (dangling, "(file)", "a link to gone.yaml, which is not there"),
        (lambda path: path.symlink_to(path.name), "(file)", "symbolic links"),
        (os.mkfifo, "(file)", "a FIFO"),
        (listening, "(file)", "a socket"),
        (lambda path: path.symlink_to("/dev/null"), "(file)", "a device"),
        (lambda path: path.write_bytes(b"a: b\nc: \xff\n"), "(file)", "not UTF-8"),
        (lambda path: path.write_bytes("a: b".encode("utf-16")), "(file)", "not UTF-8"),
        (lambda path: path.write_bytes(b" " * (declared_files.MAX_FILE_BYTES + 1)), "(file)", "larger than 16 MiB"),
    ],
    ids=["dangling", "loop", "fifo", "socket", "device", "latin1", "utf16", "large"],
)
def test_what_cannot_be_read_is_named(make: Callable[[Path], object], field: str, message: str, place: Path) -> None:
    """rules S69: nothing of it is passed over, and nothing blocks."""
    make(place / "b.yaml")
    (problem,) = problems(place)
    assert (problem.file, problem.field) == (str(place / "b.yaml"), field)
    assert message in problem.message
    (place / "b.yaml").unlink()
    assert names(place) == ["a.yaml"]


@pytest.mark.parametrize(
    ("data", "message"), [(b"\xff", "is not UTF-8"), (b"\0", "U+0000"), (b"\xef\xbf\xbe", "U+FFFE")]
)
def test_the_line_that_is_no_text(data: bytes, message: str, place: Path) -> None:
    (place / "a.yaml").write_bytes(b"a: b\nc: %b\n" % data)
    (problem,) = problems(place)
    assert problem.line == 2 and message in problem.message


def test_a_link_to_nowhere_may_have_been_a_directory(place: Path) -> None:
    dangling(place / "shared")
    assert [each.file for each in problems(place)] == [str(place / "shared")]


def test_a_link_that_leads_back(place: Path) -> None:
    (place / "sub").mkdir()
    (place / "sub" / "up").symlink_to(place)
    assert [(each.file, "around it" in each.message) for each in problems(place)] == [(str(place / "sub" / "up"), True)]


def test_a_name_that_is_not_utf_8(place: Path) -> None:
    (place / os.fsdecode(b"b\xff.yaml")).write_text(TEXT)
    (problem,) = problems(place)
    assert problem.file == f"{place}/b\\udcff.yaml" and "name" in problem.message


def test_all_is_told_at_once(place: Path) -> None:
    for name in ("b.yaml", "c.yaml"):
        dangling(place / name)
    (place / "d.yaml").write_bytes(b"\xff")
    assert [Path(each.file).name for each in problems(place)] == ["b.yaml", "c.yaml", "d.yaml"]


@contextlib.contextmanager
def an_ordinary_user() -> Iterator[None]:
    """root may read everything."""
    before = os.geteuid()
    os.seteuid(before or 65_534)
    try:
        yield
    finally:
        os.seteuid(before)


@pytest.mark.parametrize("name", ["b.yaml", "sub"])
def test_what_this_user_may_not_read(name: str) -> None:
    with tempfile.TemporaryDirectory() as made:
        place = Path(made)
        place.chmod(0o755)
        (place / "sub").mkdir()
        (place / "b.yaml").write_text(TEXT)
        (place / name).chmod(0)
        with an_ordinary_user():
            (problem,) = problems(place)
        (place / name).chmod(0o700)
    assert problem.file == str(place / name) and "Permission denied" in problem.message


def test_nothing_is_asked_of_the_coordinator_then(place: Path, tmp_path: Path) -> None:
    """Nor looked at, whether it listens: the files are judged first."""
    dangling(place / "b.yaml")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "admin.sock"))
        listening.listen()
        listening.setblocking(False)
        for command in (apply.apply, apply.diff):
            ran = CliRunner().invoke(command, ["-f", str(place), "--prune", "--socket", str(tmp_path / "admin.sock")])
            assert ran.exit_code == REFUSED
            assert f"{place}/b.yaml:1: (file): a link to gone.yaml" in ran.output
            assert "nothing was changed" in ran.output
        with pytest.raises(BlockingIOError):
            listening.accept()
