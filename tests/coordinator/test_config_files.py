"""Declared Configs, settled: what their files hold, by hashes alone, and everything that may be wrong with them."""

import base64
import ctypes
import hashlib
import multiprocessing
import resource

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.base.refusal import Code, Refused
from coordinator.configs import config_files
from coordinator.configs.config_files import content_name
from coordinator.declared import contents, kinds, resources, value_shapes
from coordinator.declared.contents import UploadedFile
from coordinator.declared.kinds import Config
from coordinator.declared.resources import DeclaredProblem, InvalidResources
from coordinator.runtime import schema_child
from tests.fakes.binary import random_bytes

MIB = 1 << 20
PR_CAPBSET_DROP, CAP_SYS_RESOURCE = 24, 24
KEY = "-----BEGIN PRIVATE KEY-----"
TOKEN = "ghp_" + "a1B2" * 9


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class World:
    """Contents as they were uploaded, and what is declared already."""

    def __init__(self, **files: bytes) -> None:
        self.parts: dict[str, bytes] = {}
        self.uploads: dict[str, UploadedFile] = {}
        self.before: dict = {}
        self.reads: list[str] = []
        for name, data in files.items():
            self.upload(name.replace("__", "."), data)

    def upload(self, name: str, data: bytes) -> None:
        parts = contents.split(data)
        self.parts |= {digest(part): part for part in parts}
        self.uploads[f"d/{name}"] = UploadedFile(len(data), tuple(map(digest, parts)))

    def read(self, sha256: str) -> bytes:
        self.reads.append(sha256)
        return self.parts[sha256]

    def settle(self, text: str):
        declared = resources.read({"d/state.yaml": text})
        shapes = value_shapes.shipped_shapes()
        return config_files.settle(declared, self.uploads, self.parts.keys(), self.read, shapes, self.before)

    def config(self, files: str, **more: str) -> Config:
        return self.settle(config(files, **more)).declared["Config", "edge"].resource

    def problems(self, files: str, **more: str) -> list[DeclaredProblem]:
        with pytest.raises(InvalidResources) as caught:
            settled = self.settle(config(files, **more))
            schema_child.check(settled.checks)
        assert caught.value.code is Code.INVALID_RESOURCES
        return list(caught.value.problems)

    def problem(self, files: str, **more: str) -> DeclaredProblem:
        (found,) = self.problems(files, **more)
        return found


def config(files: str, **more: str) -> str:
    members = "".join(f"  {name}: {value}\n" for name, value in {"to": "{nodes: [n]}", **more}.items())
    return f"kind: Config\nid: edge\nspec:\n{members}  files:\n" + "".join(
        f"    {each}\n" for each in files.split("\n")
    )


def test_every_way_to_say_what_a_file_holds_leaves_hashes() -> None:
    """The same bytes are the same parts, however they are said."""
    world = World(motd=b"hi\n")
    said = world.config(
        'a: {text: "hi\\n"}\nb: {base64: aGkK}\nc: {file: motd, mode: "0600"}\n'
        'd: {json: [1, true, {"b": 0, "a": null}]}'
    )
    parts = {path: each.stored_content.parts for path, each in said.files.items()}
    assert parts["a"] == parts["b"] == parts["c"] == (digest(b"hi\n"),)
    assert parts["d"] == (digest(b'[1,true,{"a":null,"b":0}]'),)
    assert [each.stored_content.origin for each in said.files.values()] == ["text", "base64", "file motd", "json"]
    assert said.files["c"].mode == "0600"
    assert all(each.text is each.json is each.base64 is None and not each.file for each in said.files.values())


def test_what_is_kept_is_read_again_and_says_the_same() -> None:
    """From the database, and as the coordinator shows it to who applies it once more."""
    world = World(big=random_bytes(3 * MIB + 5))
    said = world.config('big: {file: big}\nmotd: {text: "${node.id}", template: true}')
    world.parts |= {digest(b"${node.id}"): b"${node.id}"}
    assert len(said.files["big"].stored_content.parts) == 4
    assert kinds.restore("Config", "edge", said.spec()) == said
    files = said.brief()["files"]
    assert (
        world.config("\n".join(f"{path}: {str(each).replace('True', 'true')}" for path, each in files.items())) == said
    )


@given(st.binary(max_size=40), st.integers(0, 3))
def test_an_empty_file_has_one_part_and_others_as_many_as_they_need(end: bytes, whole: int) -> None:
    data = bytes(MIB) * whole + end
    parts = contents.split(data)
    assert b"".join(parts) == data
    assert list(map(len, parts)) == contents.sizes(len(data))


@pytest.mark.parametrize(
    ("files", "field", "message"),
    [
        ("../x: {text: a}", "spec.files.../x", "leaves the folder"),
        ("/etc/x: {text: a}", "spec.files./etc/x", "leaves the folder"),
        ("a//b: {text: a}", "spec.files.a//b", "is no path"),
        ("a b: {text: a}", "spec.files.a b", "is no path"),
        ("a/b/c/d/e/f/g/h/i: {text: a}", "spec.files.a/b/c/d/e/f/g/h/i", "is no path"),
        ("a: {text: a}\na/b: {text: a}", "spec.files.a/b", "lies in a"),
        ("a: {}", "spec.files.a", "needs one of file, text, json, base64"),
        ("a: {text: a, json: 1}", "spec.files.a", "needs one of"),
        ("a: {json: null}", "spec.files.a.json", "must be a value"),
        ('a: {text: a, mode: "0777"}', "spec.files.a.mode", "must be one of 0600"),
        ("a: {base64: '*'}", "spec.files.a.base64", "is no base64"),
        ("a: {file: gone}", "spec.files.a.file", "was not uploaded"),
        ("a: {text: $x, template: true}", "spec.files.a.text", "line 1 of the template: a dollar"),
        ("a: {file: bytes, template: true}", "spec.files.a.file", "line 2 is not UTF-8"),
        ("a: {file: bytes, schema: any}", "spec.files.a.file", "line 2 is not UTF-8"),
        ("a: {file: big, template: true}", "spec.files.a.file", "a template has at most"),
        ("a: {text: a, template: true, schema: gone}", "spec.files.a.schema", "was not uploaded"),
        ("a: {text: a, template: true, schema: big}", "spec.files.a.schema", "a schema has at most"),
        ("a: {json: 1, schema: gone}", "spec.files.a.schema", "was not uploaded"),
        ("a: {json: 1, schema: big}", "spec.files.a.schema", "a schema has at most"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(files: str, field: str, message: str) -> None:
    world = World(bytes=b"a\n\xff", any=b"{}", big=b"x" * (MIB + 1))
    found = world.problem(files)
    assert (found.file, found.field) == ("d/state.yaml", field)
    assert found.line == 6 + files.count("\n")
    assert message in found.message
    assert found.remedy


def test_too_many_files_are_refused() -> None:
    found = World().problem("\n".join(f"f{number}: {{text: a}}" for number in range(10_001)))
    assert "10,001 files" in found.message
    assert "10,000" in found.remedy


def test_too_large_a_folder_is_refused() -> None:
    """rules: content of 256 MiB; 300 of them, of which few are different"""
    world, name = World(), "part"
    world.parts[digest(bytes(MIB))] = bytes(MIB)
    for number in range(3):
        world.uploads[f"d/{name}{number}"] = UploadedFile(100 * MIB, (digest(bytes(MIB)),) * 100)
    found = world.problem("\n".join(f"f{number}: {{file: part{number}}}" for number in range(3)))
    assert (found.field, found.message) == ("spec.files", "has 300 MiB")
    assert "256 MiB" in found.remedy


def test_more_names_than_an_index_holds() -> None:
    long = "x" * 120
    found = World().problem("\n".join(f"{long}{number}: {{text: a}}" for number in range(9_000)))
    assert found.field == "spec.files"
    assert "index" in found.message


def test_two_of_one_id() -> None:
    with pytest.raises(InvalidResources) as caught:
        World().settle(config("a: {text: a}") + "---\n" + config("b: {text: b}"))
    (found,) = caught.value.problems
    assert "is declared at d/state.yaml:1 already" in found.message


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (f"a\nb\n{KEY}\n".encode(), 3),
        (b"\xff\x00\n" + TOKEN.encode(), 2),
        (b"\n" * (MIB - 5) + TOKEN.encode(), MIB - 4),  # over the end of a part
        (base64.b64encode(f"{KEY}\nMIIB".encode() * 3), 1),
    ],
)
def test_a_secret_in_a_file_is_refused_and_not_repeated(data: bytes, line: int) -> None:
    """threats D-55: path and line, never the value"""
    found = World(f=data).problem("a: {file: f}")
    assert found.field == "spec.files.a.file"
    assert f"line {line} " in found.message
    assert TOKEN not in str(found)
    assert "BEGIN" not in str(found)


def test_a_secret_in_what_the_declaration_says_itself() -> None:
    world = World()
    assert world.problem(f"a: {{text: '{TOKEN}'}}").field == "spec.files.a.text"
    assert world.problem("a: {json: {password: x}}").field == "spec.files.a.json.password"
    encoded = base64.b64encode(TOKEN.encode()).decode()
    assert world.problem(f"a: {{base64: {encoded}}}").field == "spec.files.a.base64"


def test_the_name_of_a_file_is_no_secrets_name() -> None:
    """format.md 11"""
    said = World().config("token: {text: a}\ntls/private_key: {text: b}\nquery_grants: {text: c}")
    assert list(said.files) == ["query_grants", "tls/private_key", "token"]


def suspicious() -> tuple[str, str]:
    """A family of the coordinator's own table, and a text of it that nodes take."""
    world = World(f=b"sk_live_" + b"aB3dE5gH7jK9" * 3)
    found = world.problem("a: {file: f}")
    return found.message.rpartition("(")[2][:-1], found.remedy


def test_what_only_looks_like_a_secret_can_be_exempted() -> None:
    family, remedy = suspicious()
    assert f"exempt: [{{at: files.a, family: {family}" in remedy
    world = World(f=b"sk_live_" + b"aB3dE5gH7jK9" * 3)
    exempt = f"[{{at: files.a, family: {family}, because: an example}}]"
    assert world.config("a: {file: f}", exempt=exempt).files["a"].stored_content.size == 44


@pytest.mark.parametrize(("text", "family"), [(KEY, "pem_private_key"), (TOKEN, "provider_token")])
def test_nothing_exempts_what_nodes_refuse(text: str, family: str) -> None:
    """Not where a family of the coordinator's own table has the name of the nodes' detector."""
    exempt = f"[{{at: files.a, family: {family}, because: an example}}]"
    found = World(f=text.encode()).problem("a: {file: f}", exempt=exempt)
    assert found.message == f"holds a raw secret in line 1 ({family})" and "exempt" not in found.remedy


def test_what_was_judged_is_not_read_again() -> None:
    """An apply costs what changed."""
    world = World(one=b"one", two=b"two")
    said = world.config("a: {file: one}\nb: {file: two}")
    assert world.reads == [digest(b"one"), digest(b"two")]
    world.before = {said.key: said}
    world.upload("two", b"three")
    world.reads.clear()
    world.config("a: {file: one}\nb: {file: two}")
    assert world.reads == [digest(b"three")]


@pytest.mark.parametrize(("size", "count"), [(MIB + 1, 1), (3, 2), (2, 1)])
def test_parts_that_are_not_what_was_said(size: int, count: int) -> None:
    world = World(f=b"abc")
    world.uploads["d/f"] = UploadedFile(size, (digest(b"abc"),) * count)
    assert "another size" in world.problem("a: {file: f}").message


def test_a_files_place_is_beside_its_yaml() -> None:
    assert content_name("/etc/fabric/edge.yaml", "nginx/a.conf") == "/etc/fabric/nginx/a.conf"
    assert content_name("edge.yaml", "a.conf") == "a.conf"


# ---- schemas

NUMBERS = b'{"type": "array", "items": {"type": "integer"}}'


def test_what_fits_its_schema() -> None:
    world = World(schema=NUMBERS, data=b"[1, 2]")
    settled = world.settle(config("a: {json: [1, 2], schema: schema}\nb: {file: data, schema: schema}"))
    schema_child.check(settled.checks)
    assert len(settled.checks) == 2


@pytest.mark.parametrize(
    ("schema", "files", "field", "message"),
    [
        (NUMBERS, "a: {json: [1, hunter2], schema: s}", "spec.files.a.json[1]", "`type`"),
        (NUMBERS, "a: {file: words, schema: s}", "spec.files.a.file", "no JSON"),
        (b"{", "a: {json: 1, schema: s}", "spec.files.a.json", "the schema is no JSON"),
        (b'{"type": "nothing"}', "a: {json: 1, schema: s}", "spec.files.a.json", "the schema is none"),
        (b'{"$ref": "https://x.invalid/s"}', "a: {json: 1, schema: s}", "spec.files.a.json", "only to itself"),
        (b'{"$ref": "file:///etc/passwd"}', "a: {json: 1, schema: s}", "spec.files.a.json", "only to itself"),
        (b'{"$ref": "#/nowhere"}', "a: {json: 1, schema: s}", "spec.files.a.json", "not there"),
        (b'{"$ref": "#"}', "a: {json: 1, schema: s}", "spec.files.a.json", "circle"),
        (b'{"$id": "https://x.invalid/a/", "properties": {"b": {"$dynamicRef": "b"}}}', "a: {json: 1, schema: s}",
         "spec.files.a.json", "only to itself"),
    ],
)  # fmt: skip
def test_what_does_not(schema: bytes, files: str, field: str, message: str) -> None:
    found = World(s=schema, words=b"hello").problem(files)
    assert found.field == field
    assert message in found.message
    assert "hunter2" not in str(found)


@pytest.mark.usefixtures("started_plainly")
def test_a_schema_that_never_ends_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pattern holds the interpreter's lock: no thread of ours would get it back."""
    monkeypatch.setattr(schema_child, "PROCESSOR_S", 0.4)
    world = World(fits=b"{}", s=b'{"pattern": "^(([a-z])+.)+[A-Z]([a-z])+$"}')
    never = f"{{json: {'a' * 60}, schema: s}}"
    found = world.problem(f"a: {{json: 1, schema: fits}}\nb: {never}\nc: {never}")
    assert (found.line, found.field) == (7, "spec.files.b.json")  # where it stood
    assert "do not come to an end" in found.message


@pytest.mark.usefixtures("started_plainly")
def test_what_has_no_turn_is_not_the_schemas_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that is busy with other things refuses nothing: it says so, and to come again."""
    monkeypatch.setattr(schema_child, "WALL_S", 0.0)
    world = World(s=NUMBERS)
    settled = world.settle(config("a: {json: [1, 2], schema: s}"))
    with pytest.raises(Refused) as caught:
        schema_child.check(settled.checks)
    assert caught.value.code is Code.TIMED_OUT
    assert "nothing was changed" in caught.value.detail and "once more" in caught.value.remedy
    monkeypatch.undo()
    schema_child.check(settled.checks)


@pytest.mark.usefixtures("started_plainly")
def test_what_the_interpreter_needs_to_start_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is more than this, and the schema's own work is less."""
    monkeypatch.setattr(schema_child, "PROCESSOR_S", 0.2)
    settled = World(s=NUMBERS).settle(config("a: {json: [1, 2], schema: s}"))
    schema_child.check(settled.checks)


@pytest.mark.usefixtures("started_plainly")
def test_a_schema_that_takes_all_memory_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_child, "MEMORY_BYTES", 16 << 20)
    found = World(s=NUMBERS).problem("a: {json: [], schema: s}")
    assert "do not come to an end" in found.message


def _judge_without_leave(outcome: "multiprocessing.Queue[str]") -> None:
    """As in the sandbox of the unit, where no limit may be set."""
    resource.setrlimit(resource.RLIMIT_AS, (1 << 45, 1 << 45))
    ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_SYS_RESOURCE, 0, 0, 0)
    schema_child.MEMORY_BYTES = 1 << 46  # more than it may have is refused as all is there
    outcome.put(World(s=NUMBERS).problem("a: {json: [1, x], schema: s}").message)


@pytest.mark.usefixtures("started_plainly")
def test_where_no_limit_may_be_set_schemas_judge_all_the_same() -> None:
    context = multiprocessing.get_context("fork")
    outcome: multiprocessing.Queue[str] = context.Queue()
    process = context.Process(target=_judge_without_leave, args=(outcome,))
    process.start()
    message = outcome.get(timeout=60)
    process.join(60)
    assert "`type`" in message
