"""Joins that come at one time are admitted together, and each has its own answer (admissions.py)."""

import pytest
import trio
import trio.testing
from sqlalchemy.exc import OperationalError

from coordinator.base.refusal import Code, Refused
from coordinator.membership.admissions import GATHER_S, MOST, PATIENCE_S, STORM_S, Admissions
from tests.world import elapsed

REFUSED = Refused(Code.TOKEN_USED, "used")


class Catalog:
    """Admits when it is told to. A candidate is a name; its grant is the name."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.may_write = trio.Event()
        self.is_their_turn = trio.Event()
        self.is_their_turn.set()
        self.spoilt = ""  # who is not taken

    async def admit(self, batch):
        self.batches.append(list(batch))
        await self.may_write.wait()
        if self.spoilt in batch:
            raise OperationalError("insert", {}, Exception("disk"))
        return [REFUSED if name == "late" else name for name in batch]

    async def wait_for_turn(self) -> None:
        await self.is_their_turn.wait()


async def outcomes(catalog: Catalog, *names: str) -> dict[str, object]:
    found: dict[str, object] = {}

    async def one(name: str) -> None:
        try:
            found[name] = await admissions.admit(name)
        except (Refused, OperationalError) as error:
            found[name] = type(error)

    admissions = Admissions(catalog.admit, catalog.wait_for_turn)
    async with trio.open_nursery() as nursery:
        for name in names:
            nursery.start_soon(one, name)
            await trio.testing.wait_all_tasks_blocked()
        catalog.is_their_turn.set()
        catalog.may_write.set()
    return found


async def test_who_comes_first_waits_for_nobody_and_who_comes_meanwhile_shares_a_turn() -> None:
    catalog = Catalog()
    assert await outcomes(catalog, "a", "b", "late", "c") == {"a": "a", "b": "b", "late": Refused, "c": "c"}
    assert catalog.batches == [["a"], ["b", "late", "c"]]


async def test_who_comes_while_heads_are_published_shares_the_turn_after_them() -> None:
    catalog = Catalog()
    catalog.is_their_turn = trio.Event()
    assert await outcomes(catalog, "a", "b", "late") == {"a": "a", "b": "b", "late": Refused}
    assert catalog.batches == [["a", "b", "late"]]


async def test_nobody_waits_for_long_for_what_is_published(autojump_clock: trio.testing.MockClock) -> None:
    catalog = Catalog()
    catalog.is_their_turn = trio.Event()
    catalog.may_write.set()
    begun = trio.current_time()
    assert await Admissions(catalog.admit, catalog.wait_for_turn).admit("a") == "a"
    assert elapsed.since(begun) == pytest.approx(PATIENCE_S)


async def test_after_several_at_once_a_turn_waits_for_more_and_later_for_nobody(
    autojump_clock: trio.testing.MockClock,
) -> None:
    catalog = Catalog()
    catalog.is_their_turn = trio.Event()
    admissions = Admissions(catalog.admit, catalog.wait_for_turn)

    async def come(*names: str) -> float:
        begun = trio.current_time()
        async with trio.open_nursery() as nursery:
            for name in names:
                nursery.start_soon(admissions.admit, name)
                await trio.sleep(GATHER_S / 4)
        return elapsed.since(begun)

    catalog.may_write.set()
    await come("a", "b")
    catalog.is_their_turn.set()
    assert await come("c", "d", "e") >= GATHER_S
    assert catalog.batches == [["a", "b"], ["c", "d", "e"]]
    await trio.sleep(STORM_S)
    begun = trio.current_time()
    await admissions.admit("f")
    assert (catalog.batches[2:], trio.current_time()) == ([["f"]], begun)
    await come("g", "h")
    assert catalog.batches[3:] == [["g"], ["h"]]


async def test_a_turn_is_for_so_many() -> None:
    catalog, names = Catalog(), [f"n{number}" for number in range(MOST + 3)]
    await outcomes(catalog, *names)
    assert [len(batch) for batch in catalog.batches] == [1, MOST, 2]


async def test_what_the_database_does_not_take_of_one_is_not_held_against_the_others() -> None:
    catalog = Catalog()
    catalog.spoilt = "c"
    assert await outcomes(catalog, "a", "b", "c", "d") == {"a": "a", "b": "b", "c": OperationalError, "d": "d"}


@pytest.mark.parametrize("gone", ["a", "b"])
async def test_whoever_has_gone_away_leaves_the_others_their_turn(gone: str) -> None:
    catalog, found, scopes = Catalog(), [], {"a": trio.CancelScope(), "b": trio.CancelScope(), "c": trio.CancelScope()}
    admissions = Admissions(catalog.admit, catalog.wait_for_turn)

    async def one(name: str) -> None:
        with scopes[name]:
            found.append(await admissions.admit(name))

    async with trio.open_nursery() as nursery:
        for name in scopes:
            nursery.start_soon(one, name)
            await trio.testing.wait_all_tasks_blocked()
        scopes[gone].cancel()
        await trio.testing.wait_all_tasks_blocked()
        catalog.may_write.set()
    assert sorted(found) == sorted(scopes.keys() - {gone})
