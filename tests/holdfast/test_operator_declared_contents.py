"""Files that declared Configs name: found beside their YAML file and nowhere else, uploaded where they are missing."""

import hashlib
import os
from pathlib import Path

import pytest

from coordinator.base.refusal import Refused
from coordinator.configs import part_bodies
from coordinator.declared.resources import DeclaredProblem, InvalidResources
from holdfast.ctl import declared_contents
from holdfast.ctl.declared_contents import ReadFile
from tests.fakes.binary import random_bytes
from wire.operators.operator_answers import KeptParts, MissingParts
from wire.operators.operator_messages import MissingRequest

MIB = 1 << 20


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    made = tmp_path / "fabric"
    (made / "nginx").mkdir(parents=True)
    return made


def yaml(*paths: str, member: str = "file") -> str:
    files = "".join(f"    f{number}: {{{member}: {path!r}}}\n" for number, path in enumerate(paths))
    return f"kind: Config\nid: edge\nspec:\n  to: {{nodes: [n]}}\n  files:\n{files}"


def read(place: Path, *paths: str) -> dict[str, ReadFile]:
    return declared_contents.read({str(place / "a.yaml"): yaml(*paths)})


def problem(place: Path, path: str) -> DeclaredProblem:
    with pytest.raises(InvalidResources) as caught:
        read(place, path)
    (found,) = caught.value.problems
    assert (found.file, found.line, found.field) == (str(place / "a.yaml"), 6, "spec.files.f0.file")
    assert found.remedy
    return found


def test_a_file_is_read_in_parts(place: Path) -> None:
    big = random_bytes(2 * MIB + 3)
    (place / "nginx" / "big").write_bytes(big)
    (place / "empty").touch()
    found = read(place, "nginx/big", "empty", "nginx/big")
    assert {name: {"size": each.size, "parts": list(each.parts)} for name, each in found.items()} == {
        f"{place}/nginx/big": {
            "size": len(big),
            "parts": [digest(big[start : start + MIB]) for start in (0, MIB, 2 * MIB)],
        },
        f"{place}/empty": {"size": 0, "parts": [digest(b"")]},
    }


def test_a_schema_is_read_too(place: Path) -> None:
    (place / "s.json").write_text("{}")
    text = yaml("s.json", member="schema")
    assert list(declared_contents.read({str(place / "a.yaml"): text})) == [f"{place}/s.json"]


def test_links_within_the_folder_are_followed(place: Path) -> None:
    (place / "a").write_text("a")
    (place / "nginx" / "b").symlink_to("../a")
    assert [each.parts for each in read(place, "nginx/b").values()] == [(digest(b"a"),)]


def test_a_folder_that_is_a_link_is_the_folder_it_leads_to(place: Path) -> None:
    (place / "a").write_text("a")
    linked = place.parent / "linked"
    linked.symlink_to(place)
    assert [each.size for each in read(linked, "a").values()] == [1]


@pytest.mark.parametrize("path", ["../secret", "nginx/../../secret", "/etc/passwd"])
def test_a_path_that_leaves_the_folder(place: Path, path: str) -> None:
    (place.parent / "secret").write_text("secret")
    assert "leaves the folder" in problem(place, path).message


def test_a_link_that_leaves_the_folder(place: Path) -> None:
    (place.parent / "secret").write_text("secret")
    (place / "file").symlink_to("../secret")
    (place / "away").symlink_to("..")
    for path in ("file", "away/secret"):
        assert "a link that leaves the folder" in problem(place, path).message


def test_what_is_no_plain_file(place: Path) -> None:
    os.mkfifo(place / "queue")
    (place / "zero").symlink_to("/dev/zero")
    (place / "round").symlink_to("round")
    assert "not a plain file" in problem(place, "queue").message
    assert "not a plain file" in problem(place, "nginx").message
    assert "leaves the folder" in problem(place, "zero").message
    assert "cannot be read" in problem(place, "round").message
    assert "is not there" in problem(place, "gone").message


def test_one_that_is_too_large(place: Path) -> None:
    with (place / "big").open("wb") as file:
        file.truncate(256 * MIB + 1)
    assert "larger than 256 MiB" in problem(place, "big").message


def test_one_that_changes_while_it_is_read(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever writes it does so between two parts."""
    (place / "log").write_bytes(bytes(2 * MIB))
    hashed = declared_contents.contents.digest

    def written_to(part: bytes) -> str:
        with (place / "log").open("ab") as file:
            file.write(b"more")
        return hashed(part)

    monkeypatch.setattr(declared_contents.contents, "digest", written_to)
    assert "changes while it is read" in problem(place, "log").message


def test_what_is_no_yaml_is_the_coordinators_to_say(place: Path) -> None:
    assert declared_contents.read({"a.yaml": "kind: Config\n  x"}) == {}
    assert declared_contents.read({"a.yaml": "kind: Config\nspec: {files: [{file: x}]}"}) == {}
    assert declared_contents.read({"a.yaml": "kind: Configs\nspec: {files: {a: {file: x}}}"}) == {}


def test_yaml_that_a_config_delivers_declares_nothing(place: Path) -> None:
    texts = {str(place / "a.yaml"): yaml("nginx/rules.yaml"), str(place / "nginx/rules.yaml"): "groups: []"}
    assert list(declared_contents.without_contents(texts)) == [str(place / "a.yaml")]


class Coordinator:
    """What a coordinator keeps; `questions`: how often it was asked."""

    def __init__(self, *kept: bytes) -> None:
        self.kept = {digest(each): each for each in kept}
        self.questions = 0
        self.uploaded: list[int] = []
        self.bodies = 0

    def post(self, kind: type[MissingParts], *_segments: str, body: MissingRequest) -> MissingParts:
        self.questions += 1
        return kind(tuple(each for each in body.sha256 if each not in self.kept))

    def send(self, kind: type[KeptParts], *segments: str, content: bytes, media_type: str) -> KeptParts:
        assert (segments, media_type) == (("contents",), part_bodies.MEDIA_TYPE)
        self.bodies += 1
        parts = part_bodies.split(content)
        for part in parts:
            self.kept[digest(part)] = part
            self.uploaded.append(len(part))
        return kind(len(parts))


def test_what_is_missing_goes_up_once(place: Path) -> None:
    big = random_bytes(3 * MIB)
    (place / "big").write_bytes(big)
    (place / "copy").write_bytes(big[:MIB] + b"end")
    files = read(place, "big", "copy")
    at = Coordinator(big[MIB : 2 * MIB])
    declared_contents.upload(at, files)
    assert at.uploaded == [MIB, MIB, 3]
    declared_contents.upload(at, files)
    assert at.uploaded == [MIB, MIB, 3]


def test_one_that_changed_since_is_not_sent(place: Path) -> None:
    (place / "a").write_text("a")
    files = read(place, "a")
    (place / "a").write_text("b")
    at = Coordinator()
    with pytest.raises(Refused) as caught:
        declared_contents.upload(at, files)
    assert "changes while it is read" in caught.value.detail
    assert at.uploaded == []


def test_many_small_ones_go_up_together(place: Path) -> None:
    """And what is too much for one body goes up in several, each as full as it may be."""
    for number in range(100):
        (place / f"f{number}").write_text(str(number))
    (place / "big").write_bytes(random_bytes(9 * MIB))
    at = Coordinator()
    declared_contents.upload(at, read(place, "big", *(f"f{number}" for number in range(100))))
    assert (len(at.uploaded), sum(at.uploaded), at.bodies) == (109, 9 * MIB + 190, 3)


def test_many_are_asked_for_by_the_thousand(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(declared_contents, "ASKED_MAX", 2)
    for number in range(5):
        (place / f"f{number}").write_text(str(number))
    at = Coordinator()
    declared_contents.upload(at, read(place, *(f"f{number}" for number in range(5))))
    assert (at.questions, len(at.uploaded)) == (3, 5)
