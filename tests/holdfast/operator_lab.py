"""`holdfastctl` as a process, and the coordinator that it speaks to, as another."""

import contextlib
import http.client
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.ctl.endpoint import Socket
from holdfast.ctl.socket import CoordinatorClient
from tests.world import programs
from tests.world.pauses import pauses
from tests.world.ports import free_ports
from tests.world.programs import Process, Ran
from wire.operators.operator_answers import JoinFacts

ROOT = Path(__file__).resolve().parents[2]
START_S = 120.0  # on a machine that has other work


EVERYWHERE = ("--listen", "0.0.0.0:0")
"""A port that nodes elsewhere reach."""

UNGUARDED = "guarded_changes = false"
"""For nodes that report nothing, or are dead: a change of theirs would wait for them."""


@dataclass
class Lab:
    """One folder: state, keys, configuration, socket; `ctl` runs a command there."""

    folder: Path
    process: Process | None = None
    ports: dict[str, int] = field(default_factory=dict)

    @property
    def configuration(self) -> Path:
        return self.folder / "coordinator.toml"

    @property
    def socket(self) -> Path:
        return self.folder / "admin.sock"

    @property
    def keys(self) -> Path:
        return self.folder / "state" / "keys"

    @property
    def among_coordinators(self) -> str:
        """Where the others may ask it."""
        return re.search(r'(?m)^coordinators = "(.*)"', self.configuration.read_text())[1]

    @property
    def roots(self) -> Path:
        return self.folder / "roots"

    def ctl(self, *arguments: object, stdin: str = "") -> Ran:
        return self._run("holdfastctl", arguments, stdin)

    @property
    def asked(self) -> CoordinatorClient:
        """What commands ask by, for who looks again and again: a process for each look keeps the processor from those
        that are waited for.
        """
        return CoordinatorClient(Socket(self.socket), as_json=True)

    def holdfast(self, *arguments: object) -> Ran:
        return self._run("holdfast", arguments, "")

    def _run(self, program: str, arguments: tuple[object, ...], stdin: str) -> Ran:
        environment = {**os.environ, "HOLDFAST_ADMIN_SOCKET": str(self.socket)}
        return programs.run(program, *arguments, folder=self.folder, environment=environment, stdin=stdin)

    def good(self, *arguments: object, stdin: str = "") -> Ran:
        ran = self.ctl(*arguments, stdin=stdin)
        assert ran.status == 0, (arguments, ran)
        return ran

    def init(self, *more: object) -> Ran:
        """A cluster whose configuration names free ports and our socket."""
        state = ("--state", "state", "--root-keys-to", self.roots, "--configuration", self.configuration)
        doors = {"--listen-admin": 0, "--listen-probes": 0}
        kept = [
            "--listen",
            "--listen-join",
            *(["--listen-coordinators"] if "--database" in more else []),
        ]  # over a stop
        doors |= zip(kept, free_ports(len(kept)), strict=True)
        listen = [word for door, port in doors.items() for word in (door, f"127.0.0.1:{port}")]
        listen += ["--admin-socket", self.socket]
        return self.good("init", "prod", "--url", "https://localhost:7443", *state, *listen, *more)

    def start(self) -> None:
        log = self.folder / "log"
        log.write_bytes(b"")
        self.process = programs.start("holdfast-coordinator", self.configuration, folder=self.folder, log=log)
        found = self._until(lambda text: re.search(r'.*"event": "serving".*\n', text))
        ports = re.findall(r'"(fleet|join|operators|probes)": (\d+)', found[0])
        self.ports = {name: int(number) for name, number in ports}

    def until_ready(self) -> None:
        """Of one that gets what it lacks from others."""
        end, pause = time.monotonic() + START_S, pauses()
        while (said := self.readiness())[0] != 200:
            assert self.process.poll() is None, self.log()
            assert time.monotonic() < end, (said, self.log())
            time.sleep(next(pause))

    def readiness(self) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.ports["probes"], timeout=30)
        with contextlib.closing(connection):
            connection.request("GET", "/probe/readiness")
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def reload(self) -> None:
        """SIGHUP, and wait until the daemon says that it is done."""
        before = self.log().count("reloaded")
        self.process.send_signal(signal.SIGHUP)
        self._until(lambda text: text.count("reloaded") > before)

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(60)
            self.process = None

    def _until(self, seen):
        """What `seen` finds in the daemon's log, once it does."""
        end, pause = time.monotonic() + START_S, pauses()
        while not (found := seen(self.log())):
            assert self.process.poll() is None, self.log()
            assert time.monotonic() < end, self.log()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(next(pause))
        return found

    def config_key(self) -> str:
        """The config key that has signed the longest and still does."""
        keys = self.good("trust", "show", "--json").json["keys"]
        active = [each for each in keys if (each["purpose"], each["status"]) == ("config", "active")]
        return min(active, key=lambda each: each["not_after"])["key_id"]


def prepared_of(lab: Lab, folder: Path, database: str, host: str, name: str = "coordinator-2") -> tuple[Lab, str]:
    """A machine of its own on which another coordinator was prepared, as docs/operating.md says it, and its pin; not
    started. `host` is what leads nodes to it, and `localhost` newcomers.
    """
    folder.mkdir()
    further = Lab(folder)
    listen = [word for door in ("join", "admin", "probes") for word in (f"--listen-{door}", "127.0.0.1:0")]
    fleet, among = free_ports(2)  # kept over a stop
    listen += ["--listen", f"0.0.0.0:{fleet}", "--listen-coordinators", f"127.0.0.1:{among}"]
    place = ("--state", "state", "--configuration", further.configuration, "--admin-socket", further.socket)
    names = ("--url", f"https://{host}:7443", "--host", "localhost", "--cluster", "prod", "--database", database)
    first = lab.asked.get(JoinFacts, "invitation")
    roots = [word for key_id in first.root_key_ids for word in ("--root-key-id", key_id)]
    made = further.good("coordinators", "prepare", name, *names, *roots, *place, *listen, "--json").json
    return further, made["certificate_sha256"]


def declare_coordinators(lab: Lab, *named: str) -> None:
    """A set that root keys sign, brought in where it was made."""
    file = lab.folder / "set.json"
    file.unlink(missing_ok=True)
    lab.good("coordinators", "set", *named, "--request", file)
    lab.good("trust", "sign", file, "--root-key", lab.roots, "--yes")
    lab.good("coordinators", "commit", file)


def introduce(*labs: Lab) -> None:
    """Each asks all the others: on one machine the hosts of their URLs and one port do not tell them apart."""
    places = [lab.among_coordinators for lab in labs]
    for lab in labs:
        others = ", ".join(place for place in places if place != lab.among_coordinators)
        text = lab.configuration.read_text()
        lab.configuration.write_text(re.sub(r"\n\[peers\]\n.*\n", "", text) + f'\n[peers]\nask = "{others}"\n')


def second_of(lab: Lab, folder: Path, database: str, host: str) -> Lab:
    """Another coordinator over one database, which is one by a signed set; not started."""
    second, pin = prepared_of(lab, folder, database, host)
    declare_coordinators(lab, "coordinator-1", f"coordinator-2={pin}")
    introduce(lab, second)
    return second


@contextlib.contextmanager
def running(folder: Path, *init: object, settings: str = "") -> Iterator[Lab]:
    lab = Lab(folder)
    lab.init(*init)
    with lab.configuration.open("a") as configuration:
        configuration.write(f"\n[settings]\n{settings}\n" if settings else "")
    lab.start()
    try:
        yield lab
    finally:
        lab.stop()
