"""Whatever heads list as coming, and whatever happens meanwhile: only what was listed to be run is ever run."""

import tempfile
from dataclasses import replace
from pathlib import Path

import trio
from hypothesis import example, given
from hypothesis import strategies as st
from trio.testing import MockClock

from agent.base.byte_source import Chunks
from agent.state.own_bounds import OwnRefusalError
from snapshot.identifiers import HEAD
from snapshot.reasons import Rejected
from tests.agent.bench import bench
from tests.agent.test_preparing import GOOD, QOS, ROUTES, WRONG, Prepared
from tests.examples import examples
from tests.journeys.lab import Lab, lab
from wire.request import HttpError

SERVICES = """
[[service]]
name = "web"
scopes = ["route_policy", "qos_policy"]
validate = ["/bin/sh", "-c", "! grep -rqs forbidden ."]
limits = {entries = 4}
"""
SCOPES = (ROUTES, QOS)
CONTENTS = (GOOD, {"routes": {"forbidden": {}}}, {"routes": {f"r{n}": {} for n in range(6)}}, {"routes": {"west": {}}})

one_step = st.one_of(
    st.tuples(st.just("propose"), st.sampled_from(SCOPES), st.integers(0, len(CONTENTS) - 1)),
    st.tuples(st.just("propose amiss"), st.sampled_from(sorted(WRONG))),
    st.tuples(st.just("lie"), st.sampled_from(SCOPES), st.sampled_from(["version", "content", "twice"])),
    st.tuples(st.just("publish"), st.sampled_from(SCOPES), st.integers(0, len(CONTENTS) - 1)),
    st.tuples(st.just("release"), st.sampled_from(SCOPES)),
    st.tuples(st.just("drop"), st.sampled_from(SCOPES)),
    st.tuples(st.just("hand in"), st.sampled_from(SCOPES)),
    st.tuples(st.sampled_from(["hear", "hear", "run", "run", "restart", "down", "up", "later"])),
)


class World:
    """A node, its coordinator, and every version that a head has listed to be run."""

    def __init__(self, one: Lab) -> None:
        self.one, self.server = one, one.server
        self.to_run: set[tuple[str, tuple[int, int], str]] = set()
        self.proposed = {}

    def announce(self) -> None:
        self.server.announce()
        listed = self.server.cluster.listed()
        self.to_run |= {(name, (at.authority_epoch, at.config_version), at.content_hash) for name, at in listed.items()}

    async def take(self, made: Prepared, step) -> None:
        if step[0] in ("hear", "run"):
            await self.hear(made, step[0])
        elif step[0] == "hand in" and step[1] in self.proposed:
            await self.hand_in(made, self.proposed[step[1]])
        else:
            self.change(step)

    def change(self, step) -> None:
        """What the coordinator has from now on."""
        match step:
            case "propose", scope, number:
                self.proposed[scope] = self.server.propose(CONTENTS[number], scope)
            case "propose amiss", what:
                self.server.coming.pop(ROUTES, None)
                WRONG[what][0](self.server)
            case "lie", scope, what if scope in self.server.coming:
                self.lie(scope, what)
            case "publish", scope, number:
                self.server.snapshot(CONTENTS[number], scope)
            case "release", scope if scope in self.server._proposed and scope in self.server.coming:
                self.server.release(scope)
            case "drop", scope:
                self.server.coming.pop(scope, None)
            case ("down",) | ("up",):
                self.server.down = step[0] == "down"
            case ("later",):
                self.one.mock.jump(2000)

    def lie(self, scope: str, what: str) -> None:
        """In the listing."""
        listed = self.server.coming[scope]
        runs = self.server.cluster.listed().get(scope, listed)
        other = {"version": {"config_version": 1}, "content": {"content_hash": "sha256:" + "5" * 64}}
        self.server.coming[scope] = replace(runs if what == "twice" else listed, **other.get(what, other["content"]))

    async def hand_in(self, made: Prepared, document) -> None:
        try:
            await made.made.inside.front.take(Chunks(document.to_bytes()))
        except (HttpError, Rejected, OwnRefusalError):
            return

    async def hear(self, made: Prepared, how: str) -> None:
        """What a server that is down does not say, nobody hears."""
        self.announce()
        await made.made.outside.refresh.ask(made.made.coordinator)
        if how == "hear":
            await made.preparation.look()
        else:
            await made.made.outside.update.bring_up()

    def holds(self, made: Prepared) -> None:
        kept, floors = made.node.holdings.kept, made.node.store.floors.scopes
        active = {(scope, held.version, held.content_hash) for scope, held in kept.active.items()}
        marks = {(scope, mark.version, mark.content_hash) for scope, mark in kept.marks.items()}
        raised = {(scope, floor.mark.version, floor.mark.content_hash) for scope, floor in floors.items()}
        found = {entry for entry in active | marks | raised if entry[0] != HEAD}
        assert found <= self.to_run, found - self.to_run
        assert {vote.scope for vote in made.preparation.votes()} <= made.node.holdings.head.candidates.keys()
        standing = made.node.standing()
        # Started again since its head ran out, and nothing was heard yet: this policy lets nothing go on.
        is_unconfirmed = (standing.state, standing.cause) == ("fenced", "unconfirmed_start")
        assert standing.state in ("active", "recovering", "degraded") or is_unconfirmed


async def lived_through(folder: Path, mock: MockClock, steps) -> None:
    async with lab(folder, mock, text=SERVICES) as one:
        world, left = World(one), list(steps)
        world.announce()
        async with bench(one) as found:
            await found.settle()
        while True:
            async with bench(one) as found:
                made = Prepared(found, folder)
                while left and (step := left.pop(0)) != ("restart",):
                    await world.take(made, step)
                    world.holds(made)
                if left:
                    continue
                await in_the_end(world, made)
                return


async def in_the_end(world: World, made: Prepared) -> None:
    """The next good head is followed, whatever there was before."""
    world.server.down = False
    world.server.coming.clear()
    world.one.mock.jump(400)
    for scope in SCOPES:
        world.server.snapshot(GOOD, scope)
    await world.hear(made, "run")
    await made.preparation.look()
    world.holds(made)
    assert made.node.standing().state != "fenced"
    versions = {scope: held.envelope.config_version for scope, held in made.node.holdings.kept.active.items()}
    assert {scope: versions[scope] for scope in SCOPES} == {
        scope: world.server.cluster.versions[scope] for scope in SCOPES
    }
    assert (made.slots(), made.votes()) == (set(), {})


@examples(25)
@example([("propose", ROUTES, 0), ("hear",), ("later",), ("hand in", ROUTES), ("restart",), ("run",)])
@example([("later",), ("restart",), ("propose", ROUTES, 0)])
@given(st.lists(one_step, max_size=14))
def test_nothing_but_what_is_listed_to_be_run_is_run_and_moves_a_mark_or_a_floor(steps):
    """rules S3, S86, L32, threats D-24"""
    mock = MockClock(rate=1.0)
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as name:
        trio.run(lived_through, Path(name), mock, steps, clock=mock, strict_exception_groups=True)
