"""A listener whose path is taken away: it comes back with the same care, and who is connected notices nothing."""

import os
import socket
import stat
from pathlib import Path

import trio

from tests.logs import capture_logs
from tests.wire.lab import head, once, unix_server
from wire.self_healing_listener import LOOK_EVERY_S
from wire.unix import passed_listener, unix_listener


async def test_a_socket_that_was_removed_comes_back(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    """rules A14; threats D-33: of the same mode, under the lock, and a connection that is open goes on."""
    async with unix_server(tmp_path) as (_, path):
        before = await trio.open_unix_socket(path)
        await before.send_all(head("/whoami"))
        assert (await before.receive_some()).startswith(b"HTTP/1.1 200")
        for taken in ((path,), (path, Path(f"{path}.lock"))):
            with capture_logs() as logs:
                for one in taken:
                    one.unlink()
                await trio.sleep(LOOK_EVERY_S + 1)
                assert await once(path, head("/whoami"))
            assert [(one["log_level"], one["path"]) for one in logs] == [("warning", str(path))]
            assert stat.S_IMODE(path.lstat().st_mode) == 0o660
            assert names(tmp_path) == [path.name, f"{path.name}.lock"]
        await before.send_all(head("/whoami"))
        assert (await before.receive_some()).startswith(b"HTTP/1.1 200")
        await before.aclose()
        await trio.sleep(10 * LOOK_EVERY_S)
        number = path.lstat().st_ino
        await trio.sleep(10 * LOOK_EVERY_S)
        assert path.lstat().st_ino == number  # and stays
    assert names(tmp_path) == [f"{path.name}.lock"]


async def test_what_hinders_is_said_once_and_tried_again(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """threats D-33, D-51: neither into a directory that others write to, nor in the place of something else."""
    path = tmp_path / "s"
    with unix_listener(path) as listener:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, _silent, [listener])
            with capture_logs() as logs:
                path.unlink()
                open_to_others(tmp_path)
                await trio.sleep(3 * LOOK_EVERY_S)
                assert "writable by its owner alone" in listener.trouble
                assert not path.exists()
                closed_to_others(tmp_path)
                path.write_text("a file")
                await trio.sleep(3 * LOOK_EVERY_S)
                assert "move it away" in listener.trouble
                assert path.read_text() == "a file"
                path.unlink()
                with socket.socket(socket.AF_UNIX) as other:
                    other.bind(os.fspath(path))
                    other.listen()
                    await trio.sleep(3 * LOOK_EVERY_S)
                    assert "another process answers" in listener.trouble
                await trio.sleep(LOOK_EVERY_S + 1)
                assert listener.trouble == ""
            await (await trio.open_unix_socket(path)).aclose()
            nursery.cancel_scope.cancel()
    assert [one["log_level"] for one in logs] == ["error"] * 3 + ["warning"]


async def test_a_socket_of_another_process_is_left_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with unix_listener(path):
        path.unlink()
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(os.fspath(path))
    assert path.is_socket()


async def test_a_socket_of_systemd_is_not_made_anew(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    """It is said once, with the remedy; it is neither bound nor unlinked by us."""
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as passed, capture_logs() as logs:
        passed.bind(os.fspath(path))
        passed.listen()
        listener = passed_listener(passed.dup())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, _silent, [listener])
            await trio.sleep(3 * LOOK_EVERY_S)
            assert (listener.trouble, logs) == ("", [])
            path.unlink()
            await trio.sleep(3 * LOOK_EVERY_S)
            assert "restart socket unit and service" in listener.trouble
            assert not path.exists()
            nursery.cancel_scope.cancel()
    assert [one["log_level"] for one in logs] == ["error"]


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


async def _silent(stream: trio.SocketStream) -> None:
    await stream.aclose()


def open_to_others(folder: Path) -> None:
    folder.chmod(0o777)


def closed_to_others(folder: Path) -> None:
    folder.chmod(0o755)
