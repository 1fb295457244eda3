"""Unix sockets: how they are made, whom they let in, how many."""

import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.wire.lab import LIMITS, LongPoll, get, head, once, unix_server
from wire.peer import OVERFLOW_UID, UnixPeer
from wire.request import Request, Response
from wire.unix import SocketError, SocketFault, passed_listener, peer_of, unix_listener

ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be other users")

CALL = """
import json, os, socket, sys
path, uid, groups, late = json.loads(sys.argv[1])
def become():
    os.setgroups(groups[1:])
    os.setgid(groups[0])
    os.setuid(uid)
if not late:
    become()
caller = socket.socket(socket.AF_UNIX)
caller.connect(path)
if late:
    become()
caller.sendall(b"GET /groups HTTP/1.1\\r\\nhost: localhost\\r\\nconnection: close\\r\\n\\r\\n")
answer = b""
while piece := caller.recv(4096):
    answer += piece
print(answer.partition(b"\\r\\n\\r\\n")[2].decode())
"""


def names(directory: Path) -> list[str]:
    return sorted(each.name for each in directory.iterdir())


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def refusal(path: Path, **options: int) -> SocketFault:
    with pytest.raises(SocketError) as caught:
        with unix_listener(path, **options):
            raise AssertionError("made all the same")
    assert str(path.parent) in str(caught.value) or "group" in str(caught.value)
    return caught.value.reason


async def test_the_socket_has_its_mode_and_is_removed_at_the_end(tmp_path: Path) -> None:
    """threats D-33; rules M12."""
    path = tmp_path / "s"
    with unix_listener(path, mode=0o600, group=os.getegid()):
        assert stat.S_IMODE(path.lstat().st_mode) == 0o600
        assert names(tmp_path) == ["s", "s.lock"]
    assert not path.exists()
    with unix_listener(path):
        assert stat.S_IMODE(path.lstat().st_mode) == 0o660


def test_it_is_never_open_to_others(tmp_path: Path) -> None:
    """threats U02: until its mode is set it lies in a directory that is ours alone, whatever the umask says."""
    seen = tmp_path / "trace"
    code = (
        "import os, pathlib, wire.unix as u\n"
        "os.umask(0)\n"
        f"directory = pathlib.Path({str(tmp_path)!r})\n"
        "chmod = pathlib.Path.chmod\n"
        "def traced(self, mode):\n"
        f"    pathlib.Path({str(seen)!r}).write_text(f'{{self.parent.stat().st_mode & 0o777:o}} {{self.exists()}}')\n"
        "    chmod(self, mode)\n"
        "pathlib.Path.chmod = traced\n"
        "with u.unix_listener(directory / 's', mode=0o600):\n"
        "    print(oct((directory / 's').stat().st_mode & 0o777))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert seen.read_text() == "700 True"
    assert done.stdout.strip() == "0o600"


async def test_a_path_that_is_too_long(tmp_path: Path) -> None:
    """threats D-51: over 107 bytes is an error of the configuration; exactly 107 works."""
    room = 107 - len(os.fsencode(tmp_path)) - 1
    assert refusal(tmp_path / ("x" * (room + 1))) is SocketFault.PATH_TOO_LONG
    with unix_listener(tmp_path / ("x" * room)):
        stream = await trio.open_unix_socket(tmp_path / ("x" * room))
        await stream.aclose()


async def test_what_stands_in_the_way(tmp_path: Path) -> None:
    """threats D-51: an old socket goes only under the lock, when it is one, is ours, and nobody answers."""
    path = tmp_path / "s"
    path.write_text("not a socket")
    assert refusal(path) is SocketFault.NOT_A_SOCKET
    assert path.read_text() == "not a socket"
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    assert refusal(path) is SocketFault.NOT_A_SOCKET
    path.unlink()
    with socket.socket(socket.AF_UNIX) as answering:
        answering.bind(str(path))
        answering.listen()
        assert refusal(path) is SocketFault.IN_USE
        assert path.is_socket()
    with unix_listener(path):  # now nobody answers
        stream = await trio.open_unix_socket(path)
        await stream.aclose()
        with pytest.raises(SocketError) as caught:
            with unix_listener(path):
                pass
        assert caught.value.reason is SocketFault.IN_USE
        assert path.is_socket()


@ROOT
async def test_another_users_socket_stays(tmp_path: Path) -> None:
    """threats D-51."""
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as old:
        old.bind(str(path))
    os.chown(path, 4000, 4000)
    assert refusal(path) is SocketFault.NOT_OURS
    assert path.is_socket()


def test_an_unsafe_directory(tmp_path: Path) -> None:
    """threats D-33: who may write to the directory may put another socket there."""
    assert refusal(tmp_path / "missing" / "s") is SocketFault.UNSAFE_DIRECTORY
    for mode in (0o777, 0o770):
        tmp_path.chmod(mode)
        assert refusal(tmp_path / "s") is SocketFault.UNSAFE_DIRECTORY
    tmp_path.chmod(0o755)
    with unix_listener(tmp_path / "s"):
        pass


@ROOT
def test_a_directory_of_another_user(tmp_path: Path) -> None:
    """threats D-33: whoever owns the directory owns the socket's name."""
    os.chown(tmp_path, 4000, 4000)
    assert refusal(tmp_path / "s") is SocketFault.UNSAFE_DIRECTORY


@ROOT
def test_a_group_that_may_not_be_given(public_folder: Path) -> None:
    """The error names the group and the remedy, and nothing is left behind."""
    os.chown(public_folder, 4000, 4000)
    code = (
        "import pathlib, wire.unix as u, os\n"
        "os.setgroups([4000]); os.setgid(4000); os.setuid(4000)\n"
        "try:\n"
        f"    with u.unix_listener(pathlib.Path({str(public_folder / 's')!r}), group=4001): pass\n"
        "except u.SocketError as error: print(error.reason, error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("not_permitted")
    assert "4001" in done.stdout
    assert names(public_folder) == ["s.lock"]


async def test_a_passed_socket_must_listen(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as passed:
        passed.bind(str(tmp_path / "p"))
        with pytest.raises(SocketError) as caught:
            passed_listener(passed)
        assert caught.value.reason is SocketFault.NOT_LISTENING
        passed.listen()
        assert passed_listener(passed).socket.fileno() == passed.fileno()


async def groups(request: Request) -> Response:
    assert isinstance(request.peer, UnixPeer)
    return Response.json({"uid": request.peer.uid, "gids": sorted(request.peer.gids), "pid": request.peer.pid})


async def test_the_caller_is_known_by_the_kernel(tmp_path: Path) -> None:
    """rules M12; threats D-33."""
    async with unix_server(tmp_path, get("/groups", groups)) as (_, path):
        answer = json.loads((await once(path, head("/groups"))).partition(b"\r\n\r\n")[2])
        assert answer["uid"] == os.geteuid()
        assert answer["gids"] == sorted({os.getegid(), *os.getgroups()})
        assert answer["pid"] == os.getpid()


async def called(path: Path, user: int, groups: list[int], *, late: bool = False) -> str:
    """What another user is answered; `late`: who becomes that user only after connect()."""
    what = json.dumps([str(path), user, groups, late])
    command = [sys.executable, "-c", CALL, what]
    return (await trio.run_process(command, capture_stdout=True, capture_stderr=True)).stdout.decode()


@ROOT
@pytest.mark.parametrize("count", [3, 300])
async def test_supplementary_groups_count(public_folder: Path, count: int) -> None:
    """threats U05: SO_PEERGROUPS, and again with more room where Python's 256 groups do not do."""
    given = list(range(70_000, 70_000 + count))
    async with unix_server(public_folder, get("/groups", groups)) as (_, path):
        path.chmod(0o666)
        answer = json.loads(await called(path, 4_000_000_000, given))
        assert answer["uid"] == 4_000_000_000
        assert answer["gids"] == given


@ROOT
async def test_the_overflow_user_is_never_served(public_folder: Path) -> None:
    """threats U06."""
    async with unix_server(public_folder, get("/groups", groups)) as (server, path):
        path.chmod(0o666)
        with pytest.raises(subprocess.CalledProcessError) as caught:
            await called(path, OVERFLOW_UID, [OVERFLOW_UID])
        assert b"BrokenPipeError" in caught.value.stderr or b"Reset" in caught.value.stderr
        assert server.statistics().answered == 0
        assert server.statistics().handshakes_failed == 1
        assert b"200 OK" in await once(path, head())


@ROOT
async def test_credentials_are_those_at_connect(public_folder: Path) -> None:
    """threats U03, fact 11: who drops root after connect() is still root here; nothing is read but the stream."""
    async with unix_server(public_folder, get("/groups", groups)) as (_, path):
        path.chmod(0o666)
        answer = json.loads(await called(path, 4000, [4000], late=True))
        assert answer["uid"] == 0


@ROOT
async def test_the_mode_keeps_other_users_out(public_folder: Path) -> None:
    """threats U01."""
    async with unix_server(public_folder, get("/groups", groups)) as (server, path):
        path.chmod(0o600)
        with pytest.raises(subprocess.CalledProcessError) as caught:
            await called(path, 4000, [4000])
        assert b"PermissionError" in caught.value.stderr
        assert server.statistics().accepted == 0


async def test_no_descriptors_are_taken(tmp_path: Path) -> None:
    """threats U03, D-33: a descriptor that is sent along is dropped by the kernel, and the request is served."""
    async with unix_server(tmp_path, get("/groups", groups)) as (_, path):
        read, write = os.pipe()
        with socket.socket(socket.AF_UNIX) as caller:
            caller.connect(str(path))
            socket.send_fds(caller, [head(connection="close")], [write])
            answer = await trio.to_thread.run_sync(caller.recv, 4096)
        assert b"200 OK" in answer
        os.close(write)
        assert os.read(read, 1) == b""  # nobody else holds the other end
        os.close(read)


async def test_connections_are_capped_for_each_user(tmp_path: Path) -> None:
    """threats D-51: the one over the cap is told so at once, and served when there is room again."""
    poll = LongPoll()
    limits = replace(LIMITS, connections_each=4)
    async with unix_server(tmp_path, get("/poll", poll), limits=limits) as (server, path):
        held = [await trio.open_unix_socket(path) for _ in range(4)]
        for stream in held:
            await stream.send_all(head("/poll"))
        await poll.until(waiting=4)
        answer = await once(path, head())
        assert answer.startswith(b"HTTP/1.1 503 ")
        body = answer.partition(b"\r\n\r\n")[2]
        assert json.loads(body)["code"] == "overloaded"
        assert b"content-length: %d\r\n" % len(body) in answer
        assert server.statistics().turned_away == 1
        for stream in held:
            await stream.aclose()
        with trio.fail_after(30):
            await server.wait_empty()
        assert b"200 OK" in await once(path, head())


async def test_connections_are_capped_in_all(tmp_path: Path) -> None:
    """threats D-51: 64, all of them in the middle of a request."""
    async with unix_server(tmp_path) as (server, path), held_by(path, 64, b"GET / HT"):
        assert (await once(path, head())).startswith(b"HTTP/1.1 503 ")
        assert server.connections == 64


async def test_a_caller_with_all_that_rest_gives_the_oldest_for_his_next(tmp_path: Path) -> None:
    """threats D-51: each program of an account may keep one, and that keeps the next program of it out of nothing."""
    async with unix_server(tmp_path) as (server, path), held_by(path, 64) as held:
        assert b"200 OK" in await once(path, head())
        assert await held[0].receive_some(1) == b""
        assert server.connections == 63
        for stream in held[1:]:
            await stream.send_all(head())
            assert b"200 OK" in await stream.receive_some(4096)


@asynccontextmanager
async def held_by(path: Path, count: int, words: bytes = b"") -> AsyncIterator[list[trio.SocketStream]]:
    """So many connections of ours, each of which has said so much and was heard."""
    async with AsyncExitStack() as stack:
        held = [await stack.enter_async_context(await trio.open_unix_socket(path)) for _ in range(count)]
        for stream in held:
            await stream.send_all(words)
        await wait_all_tasks_blocked(0.01)
        yield held


OCCUPY = """
import json, os, socket, sys
path, uids, words = json.loads(sys.argv[1])
for uid in uids:
    ready, told = os.pipe()
    if not os.fork():
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
        held = [socket.socket(socket.AF_UNIX) for _ in range(16)]
        for each in held:
            try:
                each.connect(path)
                each.sendall(words.encode())
            except OSError:
                pass
        os.write(told, b".")
        sys.stdin.read()
        os._exit(0)
    os.close(told)
    os.read(ready, 1)
print("held", flush=True)
sys.stdin.read()
"""


@asynccontextmanager
async def occupied(path: Path, uids: list[int], words: str = "") -> AsyncIterator[None]:
    """While each of these users holds 16 connections, or has tried to. Each has asked with `words`."""
    command = [sys.executable, "-c", OCCUPY, json.dumps([str(path), uids, words])]
    async with trio.open_nursery() as nursery:
        running_it = partial(trio.run_process, command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, check=False)
        process = await nursery.start(running_it)
        with trio.fail_after(60):
            assert await process.stdout.receive_some(5) == b"held\n"
        yield
        await process.stdin.aclose()
        await process.wait()


@ROOT
@pytest.mark.parametrize("words", ["", head("/poll").decode(), "GET / HT"], ids=["silent", "polling", "half a head"])
async def test_many_accounts_do_not_take_the_socket_from_root_or_from_a_service(
    public_folder: Path, words: str
) -> None:
    """threats D-51: six accounts (or one with subordinate ids) with 16 connections each, whatever they do with them.
    Root and who is named have places of their own; one of the others gets in at the cost of whoever has most.
    """
    poll = LongPoll()
    limits = replace(LIMITS, connections_each=16)
    routes = (get("/groups", groups), get("/poll", poll))
    async with unix_server(public_folder, *routes, limits=limits, first=frozenset({0, 4900})) as (server, path):
        path.chmod(0o666)
        async with occupied(path, list(range(4000, 4006)), words):
            assert json.loads(await called(path, 0, [0]))["uid"] == 0  # waits in line behind all of these
            assert server.connections in (48, 49)  # root's own may be closing
            assert json.loads(await called(path, 4900, [4900]))["uid"] == 4900
            assert json.loads(await called(path, 4901, [4901]))["uid"] == 4901
            held = [await trio.open_unix_socket(path) for _ in range(16)]  # all that is reserved
            for each in held:
                await each.send_all(head())
                assert b"200 OK" in await each.receive_some(4096)
            assert server.connections in (64, 63)
            assert json.loads(await called(path, 4900, [4900]))["uid"] == 4900
            for each in held:
                await each.aclose()
        with trio.fail_after(30):
            await server.wait_empty()
        assert json.loads(await called(path, 4901, [4901]))["uid"] == 4901


@ROOT
async def test_whoever_has_few_connections_keeps_them(public_folder: Path) -> None:
    """threats D-51: those who come again and again end connections of their own, and no other's."""
    limits = replace(LIMITS, connections_each=16)
    async with unix_server(public_folder, get("/groups", groups), limits=limits, first=frozenset()) as (_, path):
        path.chmod(0o666)
        mine = await trio.open_unix_socket(path)  # idle, and the oldest of all
        await mine.send_all(head())
        assert b"200 OK" in await mine.receive_some(4096)
        async with occupied(path, [4000, 4001, 4002, 4003, 4004, 4005, 4000, 4001]):
            await mine.send_all(head())
            assert b"200 OK" in await mine.receive_some(4096)
        await mine.aclose()


async def test_refusing_takes_a_bounded_number_of_descriptors(tmp_path: Path) -> None:
    """A flood that does not read its refusal: beyond 64 at once it is told nothing, and the next caller is served."""
    async with unix_server(tmp_path, limits=replace(LIMITS, connections_each=2)) as (server, path):
        held = [await trio.open_unix_socket(path) for _ in range(2)]
        flood = []
        before = descriptors()
        for _ in range(200):
            flood.append(socket.socket(socket.AF_UNIX))
            flood[-1].connect(str(path))
            await trio.lowlevel.checkpoint()
        ours = descriptors() - before - len(flood)
        assert ours <= 64 + len(held) + 1  # one is being accepted
        for each in [*flood, *(stream.socket for stream in held)]:
            each.close()
        with trio.fail_after(30):
            await server.wait_empty()
        assert b"200 OK" in await once(path, head())


def test_groups_of_a_pair_of_sockets() -> None:
    one, other = socket.socketpair()
    with one, other:
        assert peer_of(one).uid == os.geteuid()
        assert peer_of(one).gids == {os.getegid(), *os.getgroups()}


def test_the_socket_is_in_the_file_system(tmp_path: Path) -> None:
    """threats U10: never an abstract name, which has no mode and no owner."""
    with unix_listener(tmp_path / "s") as listener:
        assert not str(listener.socket.getsockname()).startswith("\0")
        assert (tmp_path / "s").is_socket()
    with pytest.raises(ValueError, match="null"):
        with unix_listener(Path("\0holdfast")):
            pass
