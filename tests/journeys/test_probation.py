"""The agent as a process, with content on probation: it goes back, whatever becomes of checks, of clocks, and of it."""

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import trio

from snapshot import canonical
from snapshot.identifiers import HEAD
from store.fsck.check import check
from tests.fakes.cluster import CLUSTER_ID, DAY, NOW, Cluster, listing
from tests.fakes.coordinator_server import CoordinatorServer
from tests.fakes.watched import until_there
from tests.faults.power import loop, needs_root
from tests.journeys import agent_process
from tests.journeys.lab import ROUTES, agent_toml, first_documents, put_token
from tests.journeys.test_agent_killed import WITHIN_S, Victim
from tests.world import programs
from tests.world.programs import Process

LONG_S = 600

SERVICE = """
[[service]]
name = "web"
scopes = ["route_policy"]
check = ["/bin/sh", "-c", '''{script}''']
check_interval_s = 1
"""
WELL = "echo asked >>{folder}/asked"
ILL = (
    WELL
    + """
test ! -e {folder}/ill && exit 0
date +%s.%N >{folder}/said.new
test -e {folder}/said || mv {folder}/said.new {folder}/said
echo it is ill
exit 1
"""
)


def nap() -> int:
    """Seconds that a check sleeps: by this number its processes are found. Asked for by each test, since all workers
    have imported this module in one process (tests/world/workers.py).
    """
    return 1_000_000 + os.getpid()


@dataclass
class OnProbation(Victim):
    """The agent of one disk; `clock`: what it reads as clocks."""

    clock: dict[str, object] = field(default_factory=dict)
    plainly: bool = False

    def start(self) -> Process | subprocess.Popen:
        return agent_process.start(self.folder, self.folder / "clock.json", plainly=self.plainly)

    @contextmanager
    def living(self):
        """It ends by SIGKILL."""
        process = self.start()
        try:
            yield process
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()

    def set_clock(self, **changes: object) -> None:
        self.clock = {"ahead_s": self.offset, "boot_id": "boot-1", "booted_at": 0.0} | self.clock | changes
        new = self.folder / "clock.new"
        new.write_text(json.dumps(self.clock))
        new.rename(self.folder / "clock.json")

    def boot_anew(self, number: int) -> None:
        self.set_clock(boot_id=f"boot-{number}", booted_at=time.clock_gettime(time.CLOCK_BOOTTIME) - 1.0)

    def roll_out(self, content: object, probation_s: int = LONG_S) -> int:
        """The version that heads list from now on, with a probation."""
        document = self.server.snapshot({"routes": content}, ROUTES)
        scopes = {scope: listing(made) for scope, made in self.server.cluster.published.items() if scope != HEAD}
        scopes[ROUTES] = replace(scopes[ROUTES], change="c-1", probation_s=probation_s)
        self.server.announce(scopes=scopes)
        return document.envelope.config_version

    # ---- what it says

    async def status(self) -> dict[str, object] | None:
        answer = await self.ask("v1", "status")
        return None if answer is None else canonical.loads(answer.body)

    async def scope(self) -> dict[str, object] | None:
        status = await self.status()
        return None if status is None else status["scopes"].get(ROUTES)

    async def until(self, holds: Callable[[], Awaitable[object]]) -> None:
        with trio.fail_after(WITHIN_S):
            while not await holds():  # noqa: ASYNC110 - a probation that has passed is no news for readers
                await trio.sleep(0.05)

    async def is_at(self, version: int, *, on_probation: bool | None = None) -> bool:
        said = await self.scope()
        if not said or not said["active"] or said["active"]["config_version"] != version:
            return False
        return on_probation in (None, said.get("probation_until") is not None)

    async def is_on_probation(self, version: int) -> bool:
        return await self.is_at(version, on_probation=True)

    async def has_passed(self, version: int) -> bool:
        return await self.is_at(version, on_probation=False)

    async def went_back(self) -> dict[str, object]:
        """It serves what was good, over the socket and in the files; what is said of what was tried."""
        await self.until(lambda: self.is_at(1))
        answer = await self.ask("v1", "scopes", ROUTES, "sections", "routes")
        assert canonical.loads(answer.body) == {"north": {"via": "a"}}
        file = self.folder / "run" / "active" / ROUTES / "routes.json"
        with trio.fail_after(WITHIN_S):
            while canonical.loads(file.read_bytes()) != {"north": {"via": "a"}}:  # noqa: ASYNC110 - another process lays it out
                await trio.sleep(0.01)
        said = await self.scope()
        assert said["reverted"]["config_version"] == said["attempted"]["config_version"]
        return said["reverted"]

    async def until_asked(self, more: int) -> None:
        """So many times from now on."""
        before = self.asked()

        async def is_asked() -> bool:
            return self.asked() >= before + more

        await self.until(is_asked)

    def asked(self) -> int:
        file = self.folder / "asked"
        return file.read_text().count("asked") if file.exists() else 0

    def happened(self) -> list[str]:
        """Of a stopped agent: what its journal says of probations."""
        words = ("--journal", "100", "--json")
        found = programs.run("holdfast", "store", "show", *words, "--root", self.state, folder=self.folder)
        return [event["event"] for event in found.json["journal"] if event["event"] in OUTCOMES]

    @property
    def state(self) -> Path:
        return self.folder / "state"

    def is_sound(self) -> bool:
        return list(check(self.state, CLUSTER_ID)) == []


OUTCOMES = {"probation_passed", "reverted", "nothing_to_go_back_to"}


@asynccontextmanager
async def found(folder: Path, script: str, state: Path | None = None, *, plainly: bool = False):
    """A node with version 1 of its routes, and a coordinator that `stop()` ends. Nothing runs yet."""
    offset = NOW - time.time()
    server = CoordinatorServer(Cluster(), folder, lambda: time.time() + offset)
    first_documents(server)
    server.announce()
    (folder / "run").mkdir()
    put_token(folder / "join.token")
    victim = OnProbation(folder, server, offset, plainly=plainly)
    victim.set_clock()
    async with trio.open_nursery() as nursery:
        stopped = trio.CancelScope()

        async def serve(task_status) -> None:
            with stopped:
                async with server.running():
                    task_status.started()
                    await trio.sleep_forever()

        await nursery.start(serve)
        text = agent_toml(folder, server).replace(str(folder / "state"), str(state or folder / "state"))
        (folder / "agent.toml").write_text(text + SERVICE.format(script=script.format(folder=folder, nap=nap())))
        yield victim, stopped.cancel
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def tried(folder: Path, script: str = WELL, probation_s: int = LONG_S, **more):
    """Likewise, and its agent runs, with version 2 on probation."""
    async with found(folder, script, **more) as (victim, stop):
        with victim.living() as process:
            await victim.until(lambda: victim.is_at(1))
            victim.roll_out({"south": {"via": "b"}}, probation_s)
            await victim.until(lambda: victim.is_on_probation(2))
            yield victim, stop, process


# ---- a check says no


async def test_it_goes_back_by_itself_and_says_so(tmp_path):
    """rules S67, L34: no coordinator is there, nor anybody else. How soon: benchmarks/revert.py"""
    async with tried(tmp_path, ILL) as (victim, stop, _):
        await victim.until_asked(2)
        stop()
        (tmp_path / "ill").touch()
        await until_there(tmp_path / "said")
        reverted = await victim.went_back()
        assert (reverted["config_version"], reverted["check"]) == (2, "web")
        assert reverted["detail"] == "exit 1: it is ill"
        said = programs.run("holdfast", "status", "--socket", victim.socket, folder=tmp_path)
        assert "route_policy tried version 2" in said.out
        assert "which failed (web: exit 1: it is ill), and went back: it runs 1.1" in " ".join(said.out.split())
    assert victim.happened() == ["reverted"]
    assert victim.is_sound()


MISBEHAVING = {
    "hangs": "sleep {nap}",
    "forks": "for n in 1 2 3 4 5 6 7 8; do (trap '' TERM HUP; sleep {nap}; sleep {nap}) & done; wait",
    "forks and goes": "sleep {nap} & exit 1",
    "prints gigabytes": "tail -c +{nap} /dev/zero",
    "ends its own group": "sleep {nap} & kill -9 0",
}


@pytest.mark.parametrize("what", MISBEHAVING)
async def test_a_check_that_misbehaves_is_a_no_and_leaves_nothing_behind(tmp_path, what):
    """rules S67: nor does the agent grow by what it says"""
    is_measured = "gigabytes" in what
    async with tried(tmp_path, MISBEHAVING[what], plainly=is_measured) as (victim, stop, process):
        stop()
        reverted = await victim.went_back()
        assert reverted["check"] == "web"
        with trio.fail_after(WITHIN_S):
            while processes_that_sleep():  # noqa: ASYNC110 - others end
                await trio.sleep(0.05)
        assert not is_measured or most_mib(process.pid) < 160
    assert victim.happened() == ["reverted"]
    assert victim.is_sound()


def processes_that_sleep() -> list[str]:
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = file.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0] in (b"sleep", b"tail") and any(str(nap()).encode() in word for word in words):
            found.append(str(words))
    return found


def most_mib(pid: int) -> int:
    (row,) = (row for row in Path(f"/proc/{pid}/status").read_text().splitlines() if row.startswith("VmHWM"))
    return int(row.split()[1]) >> 10


@pytest.mark.root
@needs_root
async def test_a_check_that_fills_the_disk_is_a_no(tmp_path):
    """rules L35: where the store lies, too; at the latest once there is room, and never good meanwhile"""
    with loop(tmp_path) as disk:
        script = f"cat /dev/zero >{disk.mount}/junk; exit 1"
        place = {"state": disk.mount / "state", "plainly": True}  # a mount of this process
        async with tried(tmp_path, script, probation_s=5, **place) as (victim, stop, _):
            stop()
            with trio.move_on_after(10):
                await victim.went_back()
            assert not await victim.has_passed(2)
            (disk.mount / "junk").unlink()
            assert (await victim.went_back())["check"] == "web"


# ---- it dies


async def test_killed_in_the_middle_it_goes_on_counting(tmp_path):
    """a kill is no answer, and no new beginning: all but ten seconds of ten minutes are over while nobody runs"""
    async with tried(tmp_path) as (victim, stop, process):
        stop()
        await victim.until_asked(2)
        until = (await victim.scope())["probation_until"]
        process.kill()
        process.wait()
        with victim.living():
            await victim.until(lambda: victim.is_on_probation(2))
            assert (await victim.scope())["probation_until"] == until
        asked = victim.asked()
        victim.set_clock(booted_at=10.0 - LONG_S)
        with victim.living():
            await victim.until(lambda: victim.has_passed(2))
        assert victim.asked() > asked, "it was asked after the kill"
    assert victim.happened() == ["probation_passed"]


@pytest.mark.parametrize("reboots", [False, True], ids=["a crash loop", "reboots without order"])
async def test_dying_again_and_again_is_a_failed_check(tmp_path, reboots):
    """nobody is left to ask: the start itself goes back, without a coordinator"""
    async with tried(tmp_path) as (victim, stop, process):
        stop()
        process.kill()
        process.wait()
        for number in range(1 if reboots else 2):
            if reboots:
                victim.boot_anew(number + 2)
            with victim.living():
                await victim.until(lambda: victim.is_on_probation(2))
        if reboots:
            victim.boot_anew(9)
        with victim.living():
            reverted = await victim.went_back()
        times, what = (2, "machine") if reboots else (3, "agent")
        assert (reverted["check"], reverted["detail"]) == ("start", f"the {what} ended {times} times without order")
    assert victim.happened() == ["reverted"]
    assert victim.is_sound()


async def test_killed_at_any_moment_of_the_way_back(tmp_path):
    """rules P7, J47: what failed is not good afterwards, what serves is whole, and the next change goes through"""
    chance = random.Random(17)
    async with found(tmp_path, ILL) as (victim, _):
        with victim.living():
            await victim.until(lambda: victim.is_at(1))
        for _ in range(4):
            (tmp_path / "ill").unlink(missing_ok=True)
            with victim.living():
                await victim.until(lambda: victim.is_at(1))
                version = victim.roll_out({f"r{chance.random()}": {"via": "b"}})
                await victim.until(lambda tried=version: victim.is_on_probation(tried))
                (tmp_path / "said").unlink(missing_ok=True)
                (tmp_path / "ill").touch()
                await until_there(tmp_path / "said")
                await trio.sleep(chance.uniform(0, 0.1))
            assert victim.is_sound()
            with victim.living():
                assert (await victim.went_back())["config_version"] == version
        assert victim.happened() == ["reverted"] * 4
        (tmp_path / "ill").unlink()
        with victim.living():
            version = victim.roll_out({"west": {"via": "c"}}, probation_s=2)
            await victim.until(lambda: victim.has_passed(version))


# ---- clocks


@pytest.mark.parametrize("jump_s", [DAY, -30 * DAY], ids=["ahead", "back"])
@pytest.mark.parametrize("dead", [False, True], ids=["while it runs", "while it is dead"])
async def test_a_clock_that_jumps_passes_nothing(tmp_path, jump_s, dead):
    """the probation of ten minutes is not over for a day that was no day: it is asked on, and goes back at a no"""
    async with tried(tmp_path, ILL) as (victim, stop, process):
        await victim.until_asked(1)
        stop()
        if dead:
            process.kill()
            process.wait()
        victim.set_clock(ahead_s=victim.offset + jump_s)
        with victim.living() if dead else nullcontext():
            await victim.until_asked(3)
            assert await victim.is_on_probation(2)
            (tmp_path / "ill").touch()
            assert (await victim.went_back())["detail"] == "exit 1: it is ill"
    assert victim.happened() == ["reverted"]
