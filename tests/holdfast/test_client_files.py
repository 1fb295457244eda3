"""Files of a Config by the client library and by `holdfast get`: from the socket, and from what the agent has left."""

import hashlib
import json
import os
import shutil
import subprocess

import pytest
import trio

from holdfast.client import AgentDown, Client, Expired, NotFound
from snapshot import canonical
from tests.agent.lab import serving
from tests.agent.test_file_answers import declare
from tests.fakes.config_document import FileContent
from tests.holdfast.lab import arguments, environment, holdfast
from tests.holdfast.test_client import call, client_of, misbehaving

FAR = 7_000_000_000
PART = 1 << 20
FILES = {
    "nginx.conf": FileContent(b"worker_processes 1;\n\xff\x00"),
    "conf.d/up.json": FileContent(canonical.dumps({"a": 1}), is_json=True),
    "empty": FileContent(b""),
    "geo/two.db": FileContent(os.urandom(PART)),
    "geo/ip.db": FileContent(os.urandom(PART + 1), "0640"),
}


@pytest.fixture
def edge(periphery):
    declare(periphery, 1, FILES, expires_at=FAR)
    return periphery


async def test_files_are_their_bytes_and_the_list_is_the_same_from_socket_and_files(edge):
    def everything(client):
        return client.files("web"), {path: client.file("web", path) for path in FILES}

    async with serving(edge):
        listed, read = await call(everything, client_of(edge))
    assert read == {path: file.data for path, file in FILES.items()}
    assert {path: (file.size, file.mode) for path, file in listed.files.items()} == {
        path: (len(file.data), file.mode) for path, file in FILES.items()
    }
    assert listed.files["empty"].hash == f"sha256:{hashlib.sha256(b'').hexdigest()}"
    from_files, read_again = everything(client_of(edge))
    assert read_again == read
    assert {path: (file.size, file.hash) for path, file in from_files.files.items()} == {
        path: (file.size, file.hash) for path, file in listed.files.items()
    }
    assert from_files.facts.etag == listed.facts.etag
    for path in FILES:
        assert read[path].facts.etag == read_again[path].facts.etag == f'"{listed.files[path].hash}"'
        assert (read[path].facts.source, read_again[path].facts.source) == ("agent", "files")


async def test_what_is_known_is_not_sent_again(edge):
    """Its facts are new all the same; the ETag of what the files gave is right at the socket, too."""
    async with serving(edge):
        former = await call(client_of(edge).file, "web", "geo/ip.db")
    from_files = client_of(edge).file("web", "geo/ip.db")
    async with serving(edge):
        declare(edge, 2, FILES | {"empty": FileContent(b"no more")}, expires_at=FAR + 100)
        for known in (former, from_files):

            def ask_again(known=known):
                with client_of(edge).open_file("web", "geo/ip.db", known=known) as file:
                    (same,) = file.pieces
                    return same is known, client_of(edge).file("web", "geo/ip.db", known=known)

            same, found = await call(ask_again)
            assert (same, found == FILES["geo/ip.db"].data) == (True, True)
            assert (found.facts.version, found.facts.expires_at) == (2, FAR + 100)
        other = await call(lambda: client_of(edge).file("web", "empty", known=former))
        assert other == b"no more"


NO_FILES = ("none", "geo", "geo/ip.db/x", "../../index.json", "geo/../empty", "/etc/passwd", "")


async def test_what_is_no_file_is_not_found(edge):
    def found(client):
        return {path: content for path in NO_FILES if (content := content_of(client, path)) is not None}

    async with serving(edge):
        assert await call(found, client_of(edge)) == {}
    assert found(client_of(edge)) == {}


def content_of(client, path):
    try:
        return client.file("web", path)
    except NotFound:
        return None


async def test_a_config_that_is_not_there_or_over(edge):
    def asked(client):
        for read in (lambda: client.file("other", "x"), lambda: client.files("other"), lambda: client.files("a/b")):
            with pytest.raises(NotFound):
                read()

    async with serving(edge):
        await call(asked, client_of(edge))
        edge.at = FAR + 1
        for read in (client_of(edge).files, lambda config: client_of(edge).file(config, "empty")):
            with pytest.raises(Expired):
                await call(read, "web")
        assert (await call(lambda: client_of(edge).file("web", "empty", expired=True))).facts.grade == "expired"
    asked(client_of(edge))
    with pytest.raises(NotFound, match="by their paths"):
        client_of(edge).get("config/web", "nginx.conf", expired=True)
    with pytest.raises(AgentDown):
        Client("/nonexistent", "/nonexistent").file("web", "empty")


async def test_a_generation_that_goes_while_it_is_listed_is_no_list_without_these_files(edge, monkeypatch):
    """A program that follows the list would take away what it believes to be gone."""
    going, open_ = [], os.open

    def opened(path, *arguments, **named):
        if going and path == "geo":
            shutil.rmtree(going.pop() / "config/web/geo")
        return open_(path, *arguments, **named)

    monkeypatch.setattr(os, "open", opened)
    async with serving(edge):
        active = await call(lambda: client_of(edge).files("web") and (edge.folder / "active").resolve())
    going.append(active)
    with pytest.raises(AgentDown):
        client_of(edge).files("web")
    assert not going


async def test_files_are_followed_through_a_change_a_renewal_and_the_agents_end(edge, monkeypatch):
    """A renewal is no news, nor is the same from the files."""
    looked = []
    monkeypatch.setattr("holdfast.client.time.sleep", looked.append)
    following = client_of(edge).watch_files("web", wait_s=30)
    async with serving(edge):
        before = await call(next, following)
        declare(edge, 2, FILES, expires_at=FAR + 100)
        changed = FILES | {"nginx.conf": FileContent(b"worker_processes 2;\n"), "new": FileContent(b"")}
        del changed["conf.d/up.json"]
        found = []
        async with trio.open_nursery() as nursery:

            async def take():
                found.append(await call(next, following))

            nursery.start_soon(take)
            await trio.testing.wait_all_tasks_blocked(0.02)
            declare(edge, 3, changed, expires_at=FAR + 100)
        (after,) = found
        differing = {path for path in before.files.keys() | after.files.keys()
                     if before.files.get(path) != after.files.get(path)}  # fmt: skip
        assert differing == {"nginx.conf", "new", "conf.d/up.json"}
    client = client_of(edge)
    assert client._config_files("web", after.facts.etag, 0) is None
    assert looked


def test_a_file_that_breaks_off_is_not_taken_for_whole(tmp_path):
    client = misbehaving(tmp_path, b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf")
    with pytest.raises(AgentDown, match="broke off"):
        client.file("web", "x")


def get(edge, *words):
    """`holdfast get words...`, whose answer is bytes."""
    return subprocess.run(arguments("get", *words), env=environment(edge.socket, edge.files), capture_output=True,
                          check=False, timeout=60)  # fmt: skip


async def test_get_writes_the_bytes_and_lists_the_files(edge):
    async with serving(edge):
        file = await call(get, edge, "config/web", "geo/ip.db")
        assert (file.returncode, file.stdout) == (0, FILES["geo/ip.db"].data)
        listed = await holdfast("get", "config/web", at=edge)
        assert [line.split()[::3] for line in listed.out.splitlines()] == [
            [FILES[path].mode, path] for path in sorted(FILES)
        ]
        names = await holdfast("get", "config/web", "--names", at=edge)
        assert names.out.splitlines() == sorted(FILES)
        whole = json.loads((await holdfast("get", "config/web", "--json", at=edge)).out)
        assert (whole["config"], whole["version"], sorted(whole["files"])) == ("web", 1, sorted(FILES))
        assert whole["files"]["geo/ip.db"]["size"] == PART + 1
        assert (await holdfast("get", "config/web", "none", at=edge)).status == 4
        assert (await holdfast("get", "config/web", "empty", "--json", at=edge)).status == 2
    left = get(edge, "config/web", "nginx.conf")
    assert (left.returncode, left.stdout, b"from its files" in left.stderr) == (0, FILES["nginx.conf"].data, True)
