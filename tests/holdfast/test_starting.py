"""A daemon that is being started is waited for by those who type the next command; nothing else is."""

import errno
import socket
import threading
import time

import pytest

from holdfast.terminal.starting import START_S, may_come, wait_for


@pytest.fixture
def path(tmp_path):
    return tmp_path / "daemon.sock"


def test_what_may_come(path, tmp_path):
    refused, gone = ConnectionRefusedError(), FileNotFoundError()
    assert may_come(path, gone) and may_come(path, refused)
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(str(path))
        assert may_come(path, refused)
    assert not may_come(path, PermissionError(errno.EACCES, "no"))
    assert not may_come(path, TimeoutError()) and not may_come(path, None)
    assert not may_come(tmp_path / "none" / "daemon.sock", gone)
    file = tmp_path / "file"
    file.touch()
    assert not may_come(file, refused) and not may_come(file / "daemon.sock", gone)


def test_nobody_is_waited_for_where_nobody_can_come(path):
    """It returns at once: not one pause"""
    began = time.monotonic()
    for nowhere in (path.parent / "none" / "daemon.sock", path.parent, path.parent / ("x" * 200)):
        wait_for(nowhere, within_s=3_600)
    assert time.monotonic() - began < 3_000
    wait_for(path, within_s=0)
    assert START_S <= 5


def test_who_is_being_started_is_waited_for(path):
    """First without a file, then without anybody behind it, then with"""
    waiter = threading.Thread(target=wait_for, args=(path, 3_600.0))
    waiter.start()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        assert waiter.is_alive()
        server.listen()
        waiter.join(60)
        assert not waiter.is_alive()
