"""Applying Configs: contents by their hashes, all of it or nothing, kept as long as they are named (protocol 2)."""

import hashlib

import pytest

from coordinator.base.settings import DAY, CoordinatorSettings
from coordinator.database import documents, object_store, uploads
from coordinator.runtime import retention, schema_child
from tests.coordinator.daemon import Running, refusal, running
from tests.coordinator.founding import Founded
from tests.coordinator.test_admin_api import refused_apply, refused_files
from tests.fakes.binary import random_bytes
from wire.client import Call

CONFIG = """
kind: Config
id: edge
spec:
  to: {nodes: [node-a]}
  files:
    big: {file: data/big}
    motd: {text: "hello\\n"}
---
{kind: Node, id: node-a, spec: {}}
"""
MIB = 1 << 20


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


async def upload(at: Running, data: bytes) -> dict[str, object]:
    parts = [data[start : start + MIB] for start in range(0, len(data), MIB)]
    for part in parts:
        octets = ("content-type", "application/octet-stream")
        await at.operator.fetch(at.founded.socket, Call("PUT", f"/v1/contents/{digest(part)}", [octets], part))
    return {"size": len(data), "parts": list(map(digest, parts))}


def kept(at: Running, data: bytes) -> bytes:
    with at.daemon.coordinator.database.read() as transaction:
        return object_store.get(transaction, documents.section_key(digest(data)))


async def test_a_config_is_kept_by_hashes(founded: Founded) -> None:
    """What the file holds stands nowhere but in the object store; what the YAML says goes there, too."""
    big = random_bytes(2 * MIB + 1)
    async with running(founded) as at:
        contents = {"data/big": await upload(at, big)}
        shown = await at.apply(CONFIG, contents=contents, dry_run=True)
        assert [each["kind"] for each in shown["changes"]] == ["Config", "Node"]
        done = await at.apply(CONFIG, contents=contents, based_on=shown["based_on"])
        assert done["outcome"] == "applied"
        spec = (await at.ask("GET", "/v1/resources/Config/edge?brief=true"))["spec"]
        assert spec["files"] == {
            "big": {"content": {**contents["data/big"], "origin": "file data/big"}},
            "motd": {"content": {"size": 6, "parts": [digest(b"hello\n")], "origin": "text"}},
        }
        assert kept(at, b"hello\n") == b"hello\n"
        assert (await at.apply(CONFIG, contents=contents))["changes"] == []


async def test_what_was_not_uploaded_is_refused_and_changes_nothing(founded: Founded) -> None:
    async with running(founded) as at:
        for contents in ({}, {"data/big": {"size": 3, "parts": [digest(b"big")]}}):
            answer = await refused_apply(at, CONFIG, contents=contents)
            assert [(each["line"], each["field"]) for each in answer["problems"]] == [(7, "spec.files.big.file")]
        assert (await at.ask("GET", "/v1/resources"))["resources"] == []


BAD = """
kind: Config
id: edge
spec:
  to: {nodes: [node-a]}
  files:
    f: FILE
---
{kind: Node, id: node-a, spec: {}}
"""
NEVER_ENDS = b'{"type": "string", "pattern": "^(a+)+$"}'


WRONG_FILES = [
    ("{text: '${node.name}', template: true}", b"", "line 1 of the template: there is no name node.name"),
    ("{file: data, template: true}", b"a\n\xff\n", "line 2 is not UTF-8"),
    ("{file: data, template: true}", b"a\n$b\n", "line 2 of the template: a dollar"),
    ("{file: data}", b"a: 1\nkey: AKIAIOSFODNN7EXAMPLE\n", "holds a raw secret in line 2"),
    ("{file: data}", b"a: 1\n-----BEGIN PRIVATE KEY-----\nAKIAIOSFODNN7EXAMPLE", "holds a raw secret in line 2"),
    ("{file: data, schema: data}", b"[]", "the schema is none"),
    (f"{{json: {'a' * 60}!, schema: data}}", NEVER_ENDS, "do not come to an end"),
    ("{file: other}", b"", "was not uploaded"),
]


async def test_what_is_wrong_with_a_file_is_said_and_nothing_is_applied(
    founded: Founded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reason, file and line, remedy; a value that is a secret is never repeated (threats D-55)."""
    monkeypatch.setattr(schema_child, "PROCESSOR_S", 0.4)
    async with running(founded) as at:
        for file, data, message in WRONG_FILES:
            answer = await refused_apply(at, BAD.replace("FILE", file), contents={"data": await upload(at, data)})
            (found,) = answer["problems"]
            assert (found["file"], found["line"]) == ("state.yaml", 7), message
            assert message in found["message"] and found["remedy"]
            assert "AKIAIOSFODNN7EXAMPLE" not in str(answer), message
            assert (await at.ask("GET", "/v1/resources"))["resources"] == [], message


async def test_a_machine_too_busy_for_a_schema_says_so_and_changes_nothing(
    founded: Founded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """503: the same apply goes through once there is a turn for it."""
    async with running(founded) as at:
        contents = {"data": await upload(at, b"{}")}
        text = BAD.replace("FILE", "{json: 1, schema: data}")
        monkeypatch.setattr(schema_child, "WALL_S", 0.0)
        answer = await refused_files(at, {"state.yaml": text}, 503, contents=contents)
        assert answer["code"] == "timed_out" and "apply once more" in answer["message"]
        assert (await at.ask("GET", "/v1/resources"))["resources"] == []
        monkeypatch.undo()
        assert (await at.apply(text, contents=contents))["outcome"] == "applied"


SAID = """
{kind: Config, id: edge, spec: {to: {nodes: [node-a]}, files: {motd: {text: hello}}}}
---
{kind: Node, id: node-a, spec: {}}
"""


async def test_a_plan_that_is_carried_out_days_later_keeps_its_contents_anew(founded: Founded) -> None:
    """The files were read for the plan; what they say themselves was trimmed since, as nobody has declared it."""
    async with running(founded) as at:
        shown = await at.apply(SAID, dry_run=True)
        coordinator = at.daemon.coordinator
        gone = retention.trim(coordinator.database, now=coordinator.now() + 2 * DAY, settings=CoordinatorSettings())
        assert gone["uploads"] == 1
        done = await at.apply(SAID, based_on=shown["based_on"])
        assert done["outcome"] == "applied"
        assert kept(at, b"hello") == b"hello"


async def test_two_configs_of_one_id_are_refused(founded: Founded) -> None:
    async with running(founded) as at:
        one = "{kind: Config, id: edge, spec: {to: {nodes: [n]}, files: {f: {text: a}}}}"
        (found,) = (await refused_apply(at, f"{one}\n---\n{one}"))["problems"]
        assert (found["file"], found["line"], found["field"]) == ("state.yaml", 3, "id")
        assert "is declared at state.yaml:1 already" in found["message"] and found["remedy"] == "keep one of them"
        assert (await at.ask("GET", "/v1/resources"))["resources"] == []


OUT_OF_FORM = (
    [], {"a": 1}, {"a": {"size": 1}}, {"a": {"size": -1, "parts": ["0" * 64]}},
    {"a": {"size": 1, "parts": ["x"]}}, {"a": {"size": 1, "parts": ["0" * 64] * 257}},
)  # fmt: skip


async def test_contents_out_of_form(founded: Founded) -> None:
    async with running(founded) as at:
        for contents in OUT_OF_FORM:
            assert await refusal(at.apply(CONFIG, contents=contents)) == "bad_request", contents


async def test_what_was_trimmed_since_the_plan_is_asked_for_again(founded: Founded) -> None:
    """An operator may think for two days; nothing is then declared whose bytes are gone."""
    config = CONFIG.replace('    motd: {text: "hello\\n"}\n', "")
    async with running(founded) as at:
        contents = {"data/big": await upload(at, b"big")}
        shown = await at.apply(config, contents=contents, dry_run=True)
        database, now = at.daemon.coordinator.database, at.daemon.coordinator.now()
        retention.trim(database, now=now + DAY + 1, settings=CoordinatorSettings())
        assert await refusal(at.apply(config, contents=contents, based_on=shown["based_on"])) == "conflict"
        assert (await at.ask("GET", "/v1/resources"))["resources"] == []


async def test_what_a_config_names_stays_and_goes_when_no_change_can_be_taken_back_to_it(founded: Founded) -> None:
    async with running(founded) as at:
        await at.apply(CONFIG, contents={"data/big": await upload(at, b"big")})
        database, now = at.daemon.coordinator.database, at.daemon.coordinator.now()
        retention.trim(database, now=now + 9 * DAY, settings=CoordinatorSettings())
        assert kept(at, b"big") == b"big"
        assert uploads.missing(database, [digest(b"big")], now=now) == []
        await at.apply("{kind: Node, id: node-a, spec: {}}", prune=True)
        retention.trim(database, now=now + DAY + 1, settings=CoordinatorSettings())
        assert uploads.missing(database, [digest(b"big")], now=now) == []  # the change may be taken back
        later = now + CoordinatorSettings().increment_history_s + DAY
        retention.trim(database, now=later, settings=CoordinatorSettings())
        assert uploads.missing(database, [digest(b"big")], now=now) == [digest(b"big")]


async def test_an_exemption_is_audited(founded: Founded) -> None:
    text = CONFIG.replace("  files:\n", "  exempt: [{at: files.x, family: y, because: none}]\n  files:\n")
    async with running(founded) as at:
        await at.apply(text, contents={"data/big": await upload(at, b"big")})
        (entry,) = (await at.ask("GET", "/v1/audit?action=resource.exempt"))["entries"]
        assert entry["subject"] == "Config edge"
