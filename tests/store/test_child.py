"""A function of ours in a child process: whatever folder the parent was started in."""

import subprocess
import sys

import pytest

from store.fsck import child

pytestmark = pytest.mark.usefixtures("started_plainly")

PROGRAM = "from store.fsck import child; print(child.call('{module}', 'is_id', ['raven'], 30))"


def test_our_packages_are_found_from_any_folder(tmp_path):
    """rules L30: also where an installation for development finds them by a hook, not by a path."""
    program = PROGRAM.format(module="snapshot.identifiers")
    ended = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ended.stdout, ended.returncode) == ("True\n", 0), ended.stderr


def test_the_probe_loads_no_more_than_it_reads_with():
    """rules L30: the first answer of each start waits for it, and its imports would be most of that."""
    program = "import store.fsck.walk, sys; print(*{name.partition('.')[0] for name in sys.modules})"
    ended = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True)
    loaded = set(ended.stdout.split())
    assert {"lmdb", "store"} <= loaded
    assert not loaded & {"msgpack", "snapshot", "cryptography", "trio", "h11", "ssl", "agent", "wire"}


def test_the_folder_of_the_parent_is_not_searched(tmp_path):
    """platform.md 3: a module that lies where the parent happens to stand does not take over."""
    (tmp_path / "json.py").write_text("raise SystemExit('taken over')")
    program = "import sys; sys.path.append(''); " + PROGRAM.format(module="snapshot.identifiers")
    command = [sys.executable, "-P", "-c", program]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.stdout == "True\n", ended.stderr


def test_what_the_function_says_comes_back():
    assert child.call("snapshot.identifiers", "is_id", ["Raven"], 30) is False
