"""Who compiles the tests of a new clone: one worker, while the others wait; where that is done, nobody waits."""

import fcntl
import os
import sys
import tempfile
from pathlib import Path

import pytest

from tests import bytecode
from tests.bytecode import KEPT_AS, compiled_once, lacks_bytecode


def test_what_was_never_compiled_or_is_newer_lacks_it(tmp_path: Path) -> None:
    (tmp_path / "__pycache__").mkdir()
    file, kept = tmp_path / "test_a.py", tmp_path / "__pycache__" / f"test_a.{KEPT_AS}"
    file.write_text("")
    assert lacks_bytecode(tmp_path)
    kept.write_bytes(b"")
    assert not lacks_bytecode(tmp_path)
    os.utime(kept, (1, 1))
    assert lacks_bytecode(tmp_path)


def test_pytest_keeps_it_under_that_name() -> None:
    """Else every run would be taken for the first one of a clone: this module came with it, where it is kept at all"""
    kept = Path(__file__).parent / "__pycache__" / f"test_bytecode.{KEPT_AS}"
    assert kept.exists() or sys.dont_write_bytecode


@pytest.mark.parametrize("lacks", [True, False])
def test_the_first_is_alone_where_there_is_something_to_compile(lacks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bytecode, "lacks_bytecode", lambda _: lacks)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    run = f"test-{os.getpid()}"
    lock = Path(tempfile.gettempdir()) / f"holdfast-bytecode-{os.geteuid()}-{run}"
    with compiled_once(run):
        assert lock.exists() == lacks
        if lacks:
            with lock.open() as other, pytest.raises(BlockingIOError):
                fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
    assert not lock.exists()
