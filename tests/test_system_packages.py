"""tools/python: which interpreter all is run by. tools/system-packages: what is missing is installed, or said with a
command that works as it stands.
"""

import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.citations import ROOT

SCRIPT = ROOT / "tools" / "system-packages"
BY_HAND = "apt-get install --yes --no-install-recommends"
# Interpreters as the script sees them; one that really is there may lie where other accounts cannot go.
WHOLE = "#!/bin/sh\n"
WITHOUT_VENV = """\
#!/bin/sh
case $2 in *ensurepip*) exit 1 ;; esac
"""
OLD = """\
#!/bin/sh
[ "$1" != --version ] || echo Python 3.9.2
exit 1
"""


@pytest.fixture
def place():
    """Where everybody may read: a test run's own folder is for one account."""
    folder = Path(tempfile.mkdtemp(prefix="hf-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def interpreter(place, text):
    path = place / "python"
    path.write_text(text)
    path.chmod(0o755)
    return path


def run(*words, python):
    """As an ordinary user, who cannot install anything."""
    become = []
    if os.geteuid() == 0:
        account = pwd.getpwnam("nobody")
        become = ["setpriv", f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups"]
    environment = {"PATH": "/usr/bin:/bin", "PYTHON": str(python)}
    command = [*become, "bash", "-s", *words]
    text = SCRIPT.read_text()  # by standard input: the clone may be for root alone
    return subprocess.run(command, input=text, env=environment, cwd="/", capture_output=True, text=True, check=False)


def chosen(place, debians_own):
    """Of that one, beside a whole one in the path."""
    text = (ROOT / "tools" / "python").read_text().replace("/usr/bin/python3", str(debians_own))
    (place / "python3.11").write_text(WHOLE)
    (place / "python3.11").chmod(0o755)
    done = subprocess.run(
        ["sh", "-s"], input=text, env={"PATH": f"{place}:/usr/bin:/bin"}, capture_output=True, text=True, check=True
    )
    return Path(done.stdout.strip())


def test_what_debian_has_is_taken_where_it_serves(place):
    """The packages run on it; whatever else the path has may be built otherwise."""
    assert chosen(place, interpreter(place, WHOLE)) == place / "python"
    for other in (OLD, WITHOUT_VENV):
        assert chosen(place, interpreter(place, other)) == place / "python3.11"
    assert chosen(place, place / "missing") == place / "python3.11"


def test_what_is_missing_is_said_with_one_command(place):
    """A new machine has no lists of packages, and not every one has sudo."""
    done = run("demo", python=interpreter(place, WITHOUT_VENV))
    assert done.returncode == 1
    [command] = [line.strip() for line in done.stderr.splitlines() if BY_HAND in line]
    assert "Missing: python3-venv" in done.stderr
    assert "python3-venv" in command
    assert "apt-get update && " in command
    assert command.startswith("sudo " if shutil.which("sudo", path="/usr/bin:/bin") else "su - -c '")
    assert subprocess.run(["bash", "-n", "-c", command], check=False).returncode == 0


def test_a_python_that_is_too_old_is_said_by_its_version(place):
    done = run("demo", python=interpreter(place, OLD))
    assert done.returncode == 1
    assert "Python 3.11 or newer is needed" in done.stderr
    assert "Python 3.9.2" in done.stderr
    assert BY_HAND not in done.stderr  # no package helps


def test_what_it_can_do_without_does_not_stop_it(place):
    done = run("demo", python=interpreter(place, WHOLE))
    assert done.returncode == 0
    assert "Missing" not in done.stderr


def test_a_work_that_there_is_not_is_refused(place):
    done = run("dmeo", python=interpreter(place, WHOLE))
    assert done.returncode == 2
    assert "no such work: dmeo" in done.stderr
