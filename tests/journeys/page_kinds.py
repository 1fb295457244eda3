"""How a block of a page is held against the real thing: a class for each way. page_table.py says which is for which."""

import importlib
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pytest

from tests.citations import ROOT
from tests.documented_blocks import Block
from tests.journeys.page_world import WITHIN_S, Ran, World
from tests.world.pauses import pauses

LASTS = re.compile(r"\d+ (d|h|min|s)\b( \d+ (h|min|s)\b)?")
HEX = re.compile(r"\b[0-9a-f]{8,}\b")
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT[0-9:]+Z")
COUNTED = re.compile(r"\b(generation|head|document|version|bundle) \d+")
MANY = re.compile(r"\b\d+ (bytes|events|new|changes|members)")
ASKS = ("holdfast status", "holdfast may", "holdfast explain", "holdfastctl status", "holdfastctl fleet",
        "holdfastctl explain", "holdfastctl diff", "holdfastctl nodes", "holdfastctl due")  # fmt: skip
"""Commands that change nothing: typed again until what they tell is as the page has it, as a reader would."""


@dataclass(frozen=True)
class Runs:
    before: Callable[[World], object] = lambda _: None
    values: Mapping[str, Callable[[World], str]] = field(default_factory=dict)
    statuses: Mapping[str, int] = field(default_factory=dict)
    but: Mapping[str, str] = field(default_factory=dict)
    signs: bool = False
    prints: str = ""

    def hold(self, block: Block, world: World, _last: list[Ran]) -> list[Ran]:
        self.before(world)
        typed = [one for one in block.typed() if not one.startswith(tuple(self.but))]
        ran = [self._run(world, command) for command in typed]
        for file in self.but.values():
            assert (ROOT / file).is_file(), file
        if self.prints:
            assert all(word in (ROOT / self.prints).read_text() for word in block.shown()[0].split()[:1]), self.prints
            return ran
        return until_printed(world, ran, block.shown())

    def _run(self, world: World, command: str) -> Ran:
        for shown, find in self.values.items():
            command = command.replace(shown, find(world)) if shown in command else command
        wanted = next((status for begin, status in self.statuses.items() if command.startswith(begin)), 0)
        end, pause = time.monotonic() + WITHIN_S, pauses(0.4, 2.0)
        done = world.run(command)
        while done.status != wanted and command.startswith(ASKS) and time.monotonic() < end:
            time.sleep(next(pause))
            done = world.run(command)
        if done.status != wanted:
            pytest.fail("\n".join([f"STATUS {done.status}, not {wanted}", *told(done), world.logs()]))
        if self.signs and done.status == 0 and (request := re.search(r"--request (\S+)", command)):
            world.good(f"holdfastctl trust sign {request[1]} --root-key /media/usb/roots")
            world.good(f"holdfastctl trust import {request[1]}")
        return done


@dataclass(frozen=True)
class Prints:
    command: str | None = None

    def hold(self, block: Block, world: World, last: list[Ran]) -> list[Ran]:
        ran = last if self.command is None else [world.run(self.command)]
        return until_printed(world, ran, block.shown())


@dataclass(frozen=True)
class Computes:
    """Lines of Python, as a service has them; `name` then holds something of which `word` is a part."""

    name: str
    word: str
    before: Callable[[World], object]

    def hold(self, block: Block, world: World, _last: list[Ran]) -> list[Ran]:
        self.before(world)
        run = world.at / "run/holdfast"
        text = block.text.replace("Client()", f"Client({str(run / 'agent.sock')!r}, {str(run / 'active')!r})")
        world.file("service.py", f"{text}print({self.name})\n")
        ran = world.good("python3 service.py")
        assert self.word in ran.out
        return [ran]


@dataclass(frozen=True)
class Reads:
    reader: Callable[[str], object]

    def hold(self, block: Block, _world: World, last: list[Ran]) -> list[Ran]:
        self.reader(block.text)
        return last


class Boots:
    def __init__(self, *steps: str) -> None:
        self.steps = steps

    def hold(self, _block: Block, _world: World, last: list[Ran]) -> list[Ran]:
        for step in self.steps:
            module, _, name = step.partition(".")
            assert callable(getattr(importlib.import_module(f"tests.systemd.{module}"), name)), step
        return last


class Elsewhere:
    def __init__(self, file: str, *words: str) -> None:
        self.file, self.words = file, words

    def hold(self, _block: Block, _world: World, last: list[Ran]) -> list[Ran]:
        text = (ROOT / self.file).read_text()
        assert [word for word in self.words if word not in text] == []
        return last


class OnMachines:
    """Several machines are needed: the file types each block of the section, one after the other, on the one that it is
    for.
    """

    FILE = "tests/journeys/test_documented_coordinators.py"

    def hold(self, block: Block, _world: World, last: list[Ran]) -> list[Ran]:
        assert f'"{block.section}"' in (ROOT / self.FILE).read_text(), block.section
        return last


def until_printed(world: World, ran: list[Ran], shown: list[str]) -> list[Ran]:
    """Once every line that is shown has been printed."""
    end, pause = time.monotonic() + WITHIN_S, pauses(0.4, 2.0)
    while missing := not_printed(world, ran, shown):
        again = [one.command for one in ran if one.command.startswith(ASKS)]
        if not again or time.monotonic() > end:
            said = [each for one in ran for each in told(one)]
            pytest.fail("\n".join(["NOT PRINTED", *missing, "", *said, world.logs()]))
        time.sleep(next(pause))
        ran = [world.run(one.command) if one.command in again else one for one in ran]
    return ran


def told(ran: Ran) -> list[str]:
    return [f"$ {ran.command}", *ran.lines]


def not_printed(world: World, ran: list[Ran], shown: list[str]) -> list[str]:
    printed = [alike(line, world) for one in ran for line in one.lines]
    return [line for line in shown if not any(form(line, world).match(each) for each in printed)]


def alike(line: str, world: World) -> str:
    """Without what is another in every cluster."""
    line = line.replace(f"{world.at}/", "/")
    line = MANY.sub(r"N \1", COUNTED.sub(r"\1 N", HEX.sub("H", MOMENT.sub("T", line))))
    return " ".join(LASTS.sub("L", line).split())


def form(line: str, world: World) -> re.Pattern[str]:
    """As a pattern of what is printed: `...` is anything, and after a question stands what comes next."""
    begin = re.escape(alike(line, world)).replace(r"\.\.\.", ".*")
    return re.compile(begin if line.endswith(":") else begin + r"\Z")


Kind = Runs | Prints | Computes | Reads | Boots | Elsewhere | OnMachines
