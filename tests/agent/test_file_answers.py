"""Files of a Config at the socket: bytes, ranges, and waiting for them."""

import base64
import hashlib
from types import SimpleNamespace

import pytest
import trio

from agent.local.file_answers import FileIndexes
from agent.local.scope_answers import ServedDocument
from coordinator.keys import signer
from holdfast.client import Client
from snapshot import canonical
from snapshot.config_files import FILES as INDEX
from snapshot.config_files import FileEntry
from snapshot.manifest import SectionEntry
from tests.agent.lab import ask, serving
from tests.fakes.config_document import FileContent, config_sections
from tests.store.cluster import NODE

LARGE = bytes(range(256)) * 10_000  # three parts
FILES = {
    "nginx.conf": FileContent(b"worker_processes 1;\n\xff\x00"),
    "conf.d/up.json": FileContent(canonical.dumps({"a": 1}), is_json=True),
    "empty": FileContent(b""),
    "geo/ip.db": FileContent(LARGE),
}
CONF = "/v1/config/web/nginx.conf"


def declare(periphery, version, files, **changes):
    """One version of the Config `web`."""
    content = config_sections(files)
    cluster = periphery.node.cluster
    claims = cluster.claims("config", version, scope_ids=("web",), roles=(), subject_node_id=NODE, **changes)
    periphery.apply(signer.snapshot(claims, content.sections, [cluster.config], content.raw))


@pytest.fixture
async def api(periphery):
    declare(periphery, 1, FILES)
    async with serving(periphery):
        yield periphery


@pytest.mark.parametrize("path", FILES)
async def test_a_file_is_its_bytes(api, path):
    answer = await ask(api, f"/v1/config/web/{path}")
    assert (answer.status, answer.body) == (200, FILES[path].data)
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-length"] == str(len(FILES[path].data))
    again = await ask(api, f"/v1/config/web/{path}", if_none_match=answer.headers["etag"])
    assert (again.status, again.body) == (304, b"")


@pytest.mark.parametrize(
    ("asked", "start", "end"),
    [
        ("0-0", 0, 1),
        ("1048570-1048580", 1048570, 1048581),
        ("5-", 5, None),
        ("-7", -7, None),
        ("2559999-9999999", -1, None),
    ],
)
async def test_a_range_across_the_parts(api, asked, start, end):
    answer = await ask(api, "/v1/config/web/geo/ip.db", range=f"bytes={asked}")
    assert (answer.status, answer.body) == (206, LARGE[start:end])
    assert answer.headers["content-range"].endswith(f"/{len(LARGE)}")
    assert answer.headers["content-length"] == str(len(answer.body))


async def test_ranges_that_are_none(api):
    for asked in ("bytes=99-", "bytes=-0"):
        answer = await ask(api, CONF, range=asked)
        assert (answer.status, answer.headers["content-range"]) == (416, "bytes */22")
    for asked in ("bytes=0-1,3-4", "lines=1-2", "bytes=5-2", "bytes=x-"):
        assert (await ask(api, CONF, range=asked)).status == 200
    assert (await ask(api, "/v1/config/web/empty", range="bytes=0-")).status == 416


@pytest.mark.parametrize("path", ["web/none", "web/conf.d", "no/nginx.conf", "WEB/x", "web/a//b", "web/", "web/files"])
async def test_what_is_not_there(api, path):
    assert (await ask(api, f"/v1/config/{path}")).status == 404


async def test_a_file_is_waited_for(api):
    """Another file's change and a renewal are no news."""
    etag = (await ask(api, CONF)).headers["etag"]
    answers = []

    async def poll():
        answers.append(await ask(api, f"{CONF}?wait=60", if_none_match=etag))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(poll)
        await trio.testing.wait_all_tasks_blocked(0.02)
        declare(api, 2, FILES | {"geo/ip.db": FileContent(b"small")})
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert answers == []
        declare(api, 3, FILES | {"nginx.conf": FileContent(b"worker_processes 2;\n")})
    assert (answers[0].status, answers[0].body) == (200, b"worker_processes 2;\n")


async def test_the_client_takes_the_scope_apart(api):
    """Bytes are strings of base64 in it, which are longer than the manifest says."""
    client = Client(api.socket, api.files)
    found = await trio.to_thread.run_sync(lambda: {name: one.value for name, one in client.sections("config/web")})
    index = found.pop("files")
    assert b"".join(base64.b64decode(found[name]) for name in index["geo/ip.db"]["sections"]) == LARGE


def test_which_files_there_are_is_parsed_once_for_each_version():
    """Of 10,000 files it takes a tenth of a second, and who reads them all would have it done for each."""
    read, indexes = [], FileIndexes(most_files=3)

    def shown(*paths: str) -> ServedDocument:
        index = {path: FileEntry((f"raw.{path}",), 1, "0644").members() for path in paths}
        data = canonical.dumps(index)
        entry = SectionEntry(hashlib.sha256(data).hexdigest(), len(data))
        document = SimpleNamespace(read=lambda name: read.append(paths) or data)
        return ServedDocument(None, b"", b"", "", {INDEX: entry}, document)

    for _ in range(3):
        assert indexes.of(shown("a", "b")).keys() == {"a", "b"}
    assert read == [("a", "b")]
    assert indexes.of(shown("c", "d")).keys() == {"c", "d"}
    assert indexes.of(shown("c", "d", "e", "f")).keys() == {"c", "d", "e", "f"}, "more than are kept"
    assert indexes.of(shown("a", "b")).keys() == {"a", "b"}
    assert read == [("a", "b"), ("c", "d"), ("c", "d", "e", "f"), ("a", "b")]
    assert indexes.of(ServedDocument(None, b"", b"", "", {}, None)) == {}
