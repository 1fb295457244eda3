"""Bad files against a whole coordinator, by the shipped commands: each is said with its file, line and remedy, nothing
of it is applied, and the next right apply goes through.
"""

import hashlib
import itertools
import json
import os
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.holdfast.operator_lab import Lab, running

MIB = 1 << 20
TOKEN = "ghp_" + "a1B2" * 9
COUNT = itertools.count()
HEAD = "kind: Config\nid: edge\nspec:\n  to: {labels: {app: edge}}\n  files:\n"  # the files begin at line 6
Make = Callable[[Path], None]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with running(tmp_path_factory.mktemp("coordinator")) as lab:
        yield lab


@pytest.fixture
def folder(lab: Lab) -> Path:
    made = lab.folder / f"fabric-{next(COUNT)}"
    made.mkdir()
    return made


def ask(lab: Lab, path: str, body: object) -> httpx.Response:
    transport = httpx.HTTPTransport(uds=str(lab.socket), verify=False)  # no TLS; else each question would read every CA
    with httpx.Client(transport=transport, base_url="http://localhost", timeout=120) as client:
        return client.post(path, json=body)


def state(lab: Lab) -> str:
    """The name of exactly this declared state: any change gives it another."""
    return ask(lab, "/v1/apply", {"files": {}, "dry_run": True}).json()["based_on"]


def check_right_one(lab: Lab, folder: Path) -> None:
    """The same folder, put right, is applied, and that can be told."""
    before = state(lab)
    (folder / "edge.yaml").write_text(f"{HEAD}    motd: {{text: {folder.name}}}\n")
    applied = lab.good("apply", "-f", folder.name, "--yes")
    assert re.search("[+~] Config edge", applied.out)
    assert state(lab) != before


def declare(files: str) -> Make:
    return lambda folder: write(folder, files)


def write(folder: Path, files: str) -> None:
    (folder / "edge.yaml").write_text(HEAD + files)


def declare_data(files: str, data: bytes) -> Make:
    def make(folder: Path) -> None:
        write(folder, files)
        (folder / "data").write_bytes(data)

    return make


def too_many(folder: Path) -> None:
    write(folder, "".join(f"    f{number}: {{text: a}}\n" for number in range(20_001)))


def too_large(folder: Path) -> None:
    """300 MiB that take no room, neither here nor on the way."""
    for number in range(3):
        with (folder / f"part{number}").open("wb") as file:
            file.truncate(100 * MIB)
    write(folder, "".join(f"    f{number}: {{file: part{number}}}\n" for number in range(3)))


def link_out(folder: Path) -> None:
    write(folder, "    f: {file: data}\n")
    (folder / "data").symlink_to("/etc/hostname")


def two_of_one_id(folder: Path) -> None:
    write(folder, "    f: {text: a}\n")
    (folder / "other.yaml").write_text(f"# another of this id\n{HEAD}    g: {{text: b}}\n")


BAD = {
    "20,001 files": (too_many, "edge.yaml:5: spec.files: ", "20,001 files", "1 to 10,000 are allowed: split it"),
    "300 MiB": (too_large, "edge.yaml:5: spec.files: ", "has 300 MiB", "at most 256 MiB: split it"),
    "a link that leads out": (link_out, "edge.yaml:6: spec.files.f.file: ", "a link that leaves", "put the file"),
    "a path that leads out": (
        declare("    f: {file: ../data}\n"), "edge.yaml:6: spec.files.f.file: ", "leaves the folder", "beside this file"
    ),
    "a place that leads out": (
        declare("    ../f: {text: a}\n"), "edge.yaml:6: spec.files.../f: ", "leaves the folder", "("
    ),
    "an unknown name": (
        declare("    f: {text: '${node.idd}', template: true}\n"),
        "edge.yaml:6: spec.files.f.text: ", "line 1 of the template: there is no name", "did you mean node.id?",
    ),
    "an unknown name in a file": (
        declare_data("    f: {file: data, template: true}\n", b"a\n\n${node.idd}\n"),
        "edge.yaml:6: spec.files.f.file: ", "line 3 of the template: there is no name", "did you mean node.id?",
    ),
    "a template that is no text": (
        declare_data("    f: {file: data, template: true}\n", b"a\n\xff\n"),
        "edge.yaml:6: spec.files.f.file: ", "line 2 is not UTF-8", "save it as UTF-8",
    ),
    "a private key": (
        declare_data("    f: {file: data}\n", f"a\n\n-----BEGIN PRIVATE KEY-----\n{TOKEN}\n".encode()),
        "edge.yaml:6: spec.files.f.file: ", "holds a raw secret in line 3", "keep it in a secret store",
    ),
    "two of one id": (two_of_one_id, "other.yaml:3: id: ", "edge.yaml:1 already", "keep one of them"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_is_bad_is_said_and_nothing_of_it_is_applied(lab: Lab, folder: Path, name: str) -> None:
    """threats D-55: path and line of a secret, never its value."""
    make, place, message, remedy = BAD[name]
    make(folder)
    before = state(lab)
    refused = lab.ctl("apply", "-f", folder.name, "--yes")
    assert refused.status == 6, refused
    first, said = refused.err.splitlines()[-2:]
    assert first.endswith("invalid_resources: 1 problems; nothing was changed")
    assert said.startswith(f"{folder.name}/{place}"), said
    assert message in said and remedy in said.partition(message)[2], said
    assert TOKEN not in refused.err + refused.out and "BEGIN" not in refused.err
    assert state(lab) == before
    for wrong in folder.iterdir():
        wrong.unlink()
    check_right_one(lab, folder)


@contextmanager
def writing(file: Path) -> Iterator[None]:
    """Somebody who writes to it all the while."""
    done = threading.Event()

    def write_on() -> None:
        while not done.wait(0.001):
            os.utime(file)

    writer = threading.Thread(target=write_on)
    writer.start()
    try:
        yield
    finally:
        done.set()
        writer.join()


def test_a_file_that_changes_while_it_is_read(lab: Lab, folder: Path) -> None:
    """Nobody can say which of its states was meant."""
    write(folder, "    f: {file: data}\n")
    with (folder / "data").open("wb") as file:
        file.truncate(200 * MIB)
    before = state(lab)
    with writing(folder / "data"):
        refused = lab.ctl("apply", "-f", folder.name, "--yes")
    assert refused.status == 6, refused
    said = refused.err.splitlines()[-1]
    assert said.startswith(f"{folder.name}/edge.yaml:6: spec.files.f.file: changes while it is read (let whoever"), said
    assert state(lab) == before
    check_right_one(lab, folder)


def test_an_upload_that_breaks_off_half_way(lab: Lab, folder: Path) -> None:
    """What names it is refused; holdfastctl sends it once more, and it is applied."""
    write(folder, "    f: {file: data}\n")
    data = bytes(range(256)) * 4096
    (folder / "data").write_bytes(data)
    digest = hashlib.sha256(data).hexdigest()
    head = f"PUT /v1/contents/{digest} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/octet-stream\r\n"
    with socket.socket(socket.AF_UNIX) as broken:
        broken.connect(str(lab.socket))
        broken.sendall(f"{head}content-length: {len(data)}\r\n\r\n".encode() + data[: len(data) // 2])
    before = state(lab)
    files = {"edge.yaml": (folder / "edge.yaml").read_text()}
    answer = ask(lab, "/v1/apply", {"files": files, "contents": {"data": {"size": len(data), "parts": [digest]}}})
    assert answer.status_code == 422
    (found,) = json.loads(answer.content)["problems"]
    assert (found["file"], found["line"], found["message"]) == ("edge.yaml", 6, "was not uploaded")
    assert "apply with holdfastctl" in found["remedy"]
    assert state(lab) == before
    assert re.search("[+~] Config edge", lab.good("apply", "-f", folder.name, "--yes").out)
