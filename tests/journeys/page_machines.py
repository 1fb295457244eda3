"""Several machines as a page of docs/ has them, over one database, and a stick that is carried between them; and the
blocks of a section of the page, each typed on the machine that it is for.

What a page cannot know is put in: the database's place, hashes that were printed before. On one machine the hosts of
the coordinators' URLs and one port do not tell them apart, so each is told where the others listen (`[peers] ask`).
"""

import re
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.documented_blocks import Block, blocks
from tests.fakes.storage import own_address
from tests.journeys.page_kinds import ASKS, not_printed
from tests.journeys.page_world import WITHIN_S, Ran, World
from tests.world.pauses import pauses
from tests.world.ports import free_ports

DATABASE = "postgresql+psycopg://holdfast@db.example/holdfast"
PAGE = "docs/operating.md"
MAKES = ("holdfastctl init", "holdfastctl coordinators prepare")
_URL = re.compile(r"https://coordinator(?:-(\d))?\.example:7443")


@dataclass
class Machine(World):
    """One of the cluster's. `others`: all of them by their numbers, this one too."""

    stick: Path = Path()
    database: str = ""
    others: Mapping[str, "Machine"] = field(default_factory=dict)
    settings: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.ports[7446] = free_ports(1)[0]
        shutil.rmtree(self.at / "media/usb")
        (self.at / "media/usb").symlink_to(self.stick)

    @property
    def configuration(self) -> Path:
        return self.at / "etc/holdfast/coordinator.toml"

    def here(self, text: str) -> str:
        def url(found: re.Match[str]) -> str:
            return f"https://{own_address()}:{self.others[found[1] or '1'].ports[7443]}"

        return super().here(_URL.sub(url, text).replace(DATABASE, f"'{self.database}'"))

    def run(self, command: str) -> Ran:
        is_new = not self.configuration.exists()
        ran = super().run(command)
        if is_new and self.configuration.exists():
            self._introduce()
        return ran

    def _introduce(self) -> None:
        places = [f"127.0.0.1:{one.ports[7446]}" for one in self.others.values() if one is not self]
        with self.configuration.open("a") as configuration:
            configuration.write(f'\n[peers]\nask = "{", ".join(places)}"\n{self.settings}')

    def _placed(self, command: str) -> str:
        at, ports = self.at, self.ports
        listen = {"": 7443, "-join": 7444, "-probes": 9465, "-admin": 7445, "-coordinators": 7446}
        doors = " ".join(f"--listen{name} 0.0.0.0:{ports[port]}" for name, port in listen.items())
        place = f"--state {at}/var/lib/holdfast-coordinator --configuration {self.configuration}"
        usual = f"{place} {doors} --admin-socket {at}/run/holdfast-coordinator/admin.sock --host localhost"
        for begin in MAKES:
            if command.startswith(f"{begin} "):
                database = "" if "--database" in command else f" --database '{self.database}'"
                return f"{begin} {usual}{database} {command.removeprefix(begin)}"
        return super()._placed(command)

    def lose(self) -> None:
        """The machine burns down; another one stands there, on which nothing is."""
        for name in list(self.processes.running):
            self.processes.kill(name)
        for place in ("etc/holdfast", "var/lib/holdfast-coordinator", "run/holdfast-coordinator"):
            shutil.rmtree(self.at / place, ignore_errors=True)
            (self.at / place).mkdir(parents=True)
        (self.at / "var/lib/holdfast-coordinator").rmdir()

    def until_good(self, command: str) -> Ran:
        end, pause = time.monotonic() + WITHIN_S, pauses(0.4, 2.0)
        while (ran := self.run(command)).status != 0:
            assert time.monotonic() < end, (ran, self.logs())
            time.sleep(next(pause))
        return ran


def machines(folder: Path, database: str, count: int, settings: str = "") -> dict[str, Machine]:
    stick, made = folder / "stick", {}
    (stick / "roots").mkdir(parents=True, mode=0o700)
    stick.chmod(0o700)
    for number in map(str, range(1, count + 1)):
        (folder / number).mkdir()
        made[number] = Machine(folder / number, stick=stick, database=database, settings=settings)
    for one in made.values():
        one.others = made
    return made


@dataclass
class Section:
    """The blocks under one heading of the page, in their order. `rest`: what nobody has typed yet."""

    heading: str
    rest: list[Block] = field(init=False)

    def __post_init__(self) -> None:
        self.rest = [block for block in blocks(PAGE) if block.section == self.heading]
        assert self.rest, self.heading

    def typed(self, at: Machine, begin: str, values: Mapping[str, str] | None = None, status: int = 0) -> list[Ran]:
        """Its next block, on this machine: each command ends so, and what the block shows is printed. `status`: of what
        only asks.
        """
        block = self.next(begin)
        ran = [self._run(at, _valued(command, values or {}), status) for command in block.typed()]
        assert (missing := not_printed(at, ran, block.shown())) == [], (missing, ran)
        return ran

    def next(self, begin: str) -> Block:
        block = self.rest.pop(0)
        assert block.name.startswith(begin), (block.name, begin)
        return block

    def _run(self, at: Machine, command: str, status: int) -> Ran:
        asks = command.startswith((*ASKS, "holdfastctl coordinators status"))
        if asks and status == 0:
            return at.until_good(command)
        ran = at.run(command)
        assert ran.status == (status if asks else 0), (ran, at.logs())
        return ran


def _valued(command: str, values: Mapping[str, str]) -> str:
    """Each text of the page in the place of what it stands for here."""
    for text, value in values.items():
        command = command.replace(text, value)
    return command


def roots_named(shown: Ran) -> dict[str, str]:
    """What `trust show` ends with, for the three that the page leaves out."""
    named = re.search(r"(--root-threshold \d+(?: --root-key-id sha256:\w+)+)", shown.out)
    return {"--root-threshold 2" + " --root-key-id sha256:..." * 3: named[1]}


def pin_of(prepared: Ran) -> dict[str, str]:
    pin = re.search(r"identity +(sha256:\w+)", prepared.out)[1]
    return {"=sha256:...": f"={pin}"}
