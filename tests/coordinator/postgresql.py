"""A real PostgreSQL for tests: Debian's, on a Unix socket in a temporary directory, gone with the test run.

A program that calls itself postgres elsewhere on the path may be anything, so Debian's directory is looked at first. As
root the server runs as `postgres` or `nobody`, since it refuses to be root.
"""

import atexit
import os
import pwd
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.memory import memory_folder

_AS_OTHERS = ("postgres", "nobody")
# No data outlives the test run, so nothing of it is brought to a disk; but for a benchmark it is, as it will be.
_VOLATILE = "-c fsync=off -c full_page_writes=off -c autovacuum=off"
_SETTINGS = "-c wal_level=minimal -c max_wal_senders=0 -c jit=off -c max_connections=60 -c shared_buffers=64MB"


class Unavailable(Exception):
    """PostgreSQL cannot be had here; the text says why."""


def programs() -> Path:
    """The directory of Debian's server programs, installing the package where we may."""
    found = _newest()
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        quiet = {"DEBIAN_FRONTEND": "noninteractive", "PATH": os.environ["PATH"]}
        for command in (["apt-get", "-q", "update"], ["apt-get", "-q", "-y", "install", "postgresql"]):
            subprocess.run(command, env=quiet, capture_output=True, timeout=600, check=False)
        found = _newest()
    if found is None:
        raise Unavailable("no /usr/lib/postgresql/*/bin/postgres: install Debian's package `postgresql`")
    return found


@dataclass(frozen=True)
class Server:
    """One server, which can be stopped and started. `url` is without the database's name. `durable`: a commit waits for
    the disk.
    """

    user: str | None
    base: Path
    control: Path
    durable: bool = False
    settings: str = _SETTINGS

    @property
    def url(self) -> str:
        return f"postgresql+psycopg://holdfast@/{{}}?host={self.base}"

    def start(self) -> None:
        options = f"-k {self.base} -c listen_addresses='' {self.settings} {'' if self.durable else _VOLATILE}"
        log = self.base / "log"
        _run(self.user, self.control, "start", "-w", "-D", self.base / "data", "-l", log, "-o", options)

    def stop(self) -> None:
        """At once, connections and all, as when the machine goes."""
        _run(self.user, self.control, "stop", "-w", "-m", "immediate", "-D", self.base / "data")

    def promote(self) -> None:
        """A standby takes writes from now on."""
        _run(self.user, self.control, "promote", "-w", "-D", self.base / "data")

    def follow(self, primary: "Server") -> None:
        """Made anew, as a standby of another one that runs."""
        shutil.rmtree(self.base / "data", ignore_errors=True)
        copied = ("-h", primary.base, "-U", "holdfast", "-D", self.base / "data", "-R", "--no-sync", "-c", "fast")
        _run(self.user, self.control.with_name("pg_basebackup"), *copied)
        self.start()


@contextmanager
def server(directory: Path, *, durable: bool = False) -> Iterator[str]:
    """Start a server under `directory`; gives the URL of its database `postgres`, without the database's name."""
    with stoppable(directory, "pg", durable=durable) as started:
        yield started.url


@contextmanager
def stoppable(directory: Path, name: str, *, durable: bool = False, settings: str = _SETTINGS) -> Iterator[Server]:
    """The same, as a thing to stop and start. `name` tells those of one test run apart."""
    bin_directory = programs()
    user = _runner()
    base = new_base(directory, user, name, durable=durable)
    _run(user, Path("/bin/cp"), "-a", _made(bin_directory, user), base / "data")
    started = Server(user, base, bin_directory / "pg_ctl", durable, settings)
    started.start()
    try:
        yield started
    finally:
        with suppress(Unavailable):  # a test may have stopped it
            started.stop()
        shutil.rmtree(base, ignore_errors=True)


def begin() -> None:
    """For all that are forked from here on, too. Where it cannot be had, each of them says so by itself."""
    with suppress(Unavailable):
        if found := _newest():
            _made(found, _runner())


@cache
def _made(bin_directory: Path, user: str | None) -> Path:
    """What `initdb` makes, which is half a second's work: once for this test run, and copied for each server. It ends
    with the process that made it.
    """
    base, whose = Path(tempfile.mkdtemp(prefix="holdfast-initdb-", dir=memory_folder())), os.getpid()

    def end() -> None:
        if os.getpid() == whose:
            shutil.rmtree(base, ignore_errors=True)

    atexit.register(end)
    if user:
        shutil.chown(base, user)
    data = ("-D", base / "data", "-U", "holdfast", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")
    _run(user, bin_directory / "initdb", *data)
    return base / "data"


@contextmanager
def or_skip(directory: Path, name: str, what: str, *, address: str = "") -> Iterator[Server]:
    """The same, for a fixture; where there is none, its tests are left out, and `what` that means is said loudly.
    `address`: where it listens beside its socket.
    """
    with ExitStack() as at_the_end:
        try:
            settings = f"{_SETTINGS} -c listen_addresses='{address}'"
            started = at_the_end.enter_context(stoppable(directory, name, settings=settings))
        except Unavailable as error:
            with warnings.catch_warnings():
                warnings.simplefilter("always")
                warnings.warn(f"NO POSTGRESQL, {what}: {error}", stacklevel=1)
            pytest.skip(f"NO POSTGRESQL: {error}")
        yield started


def _newest() -> Path | None:
    found = Path("/usr/lib/postgresql").glob("*/bin/postgres")
    usable = [each for each in found if os.access(each, os.X_OK) and (each.parent / "initdb").exists()]
    return max((each.parent for each in usable), key=lambda each: int(each.parent.name), default=None)


def _runner() -> str | None:
    if os.geteuid() != 0:
        return None
    names = [entry.pw_name for entry in pwd.getpwall()]
    return next(name for name in _AS_OTHERS if name in names)


def new_base(directory: Path, user: str | None, name: str, *, durable: bool = False) -> Path:
    """A short path (a socket's may have 107 bytes) that the server's user can reach; on a disk where that is meant."""
    if user:
        place = (None if durable else memory_folder()) or "/tmp"
        base = Path(tempfile.mkdtemp(prefix=f"holdfast-{name}-", dir=place))
        shutil.chown(base, user)
        return base
    base = directory / name
    base.mkdir(mode=0o700)
    return base


def _run(user: str | None, program: Path, *arguments: object) -> None:
    become = ["setpriv", f"--reuid={user}", f"--regid={pwd.getpwnam(user).pw_gid}", "--clear-groups"] if user else []
    command = [*become, str(program), *map(str, arguments)]
    # pg_ctl hands its output on to the server, so a pipe would never end.
    done = subprocess.run(
        command,
        cwd="/",
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
        timeout=120,
        check=False,
    )
    if done.returncode:
        raise Unavailable(f"{program.name} failed with {done.returncode}")
