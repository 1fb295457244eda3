"""Whose certificates TLS knows, and as what (rules K22, H-000-2, K34; threats D-31)."""

from itertools import pairwise

import pytest
import trio
import trio.testing
from sqlalchemy import delete
from sqlalchemy.exc import OperationalError

from coordinator.database import schema
from coordinator.database.database import Database
from coordinator.membership import membership, pin_sync, revocation
from coordinator.membership.pin_sync import Pinned, PinStanding, PinSync
from tests.coordinator.candidates import NOW, Candidate, admit, allow, found, join, remove_node, token_for
from tests.coordinator.readings import held_reading
from wire.certificate import fingerprint, make_identity
from wire.operators.operator_answers import AllowlistEntry
from wire.peer import PinState
from wire.pins import PinTable


def candidate(database: Database, node_id: str) -> Candidate:
    found(database)
    return admit(database, node_id)


def states(database: Database) -> set[tuple[bytes, PinState]]:
    return {(each.der, each.state) for each in pin_sync.read_differences(database, {}).new}


def test_members_revoked_ones_and_those_that_left(database: Database) -> None:
    one = candidate(database, "one")
    two, three = admit(database, "two"), admit(database, "three")
    revocation.revoke_node(database, "two", reason="x", actor="root", now=NOW)
    remove_node(database, "three", reason="x", actor="root", now=NOW)
    assert states(database) == {
        (one.der, PinState.ACTIVE),
        (two.der, PinState.REVOKED),
        (three.der, PinState.REMOVED),
    }
    revocation.readmit(database, AllowlistEntry("three"), actor="root", now=NOW)
    assert (three.der, PinState.REMOVED) not in states(database)
    assert join(database, three, token_for(database)).outcome == "admitted"
    assert (three.der, PinState.ACTIVE) in states(database)


def test_while_a_certificate_is_renewed_both_are_known(database: Database) -> None:
    """protocol 1"""
    old = candidate(database, "one")
    new = old.renewed()
    join(database, new, connection=old.pin)
    assert set(pin_sync.read(database, ["one"])["one"]) == {
        Pinned(old.der, "one", PinState.ACTIVE),
        Pinned(new.der, "one", PinState.ACTIVE, is_next=True),
    }
    assert membership.confirm_pin(database, new.pin, now=NOW)
    assert pin_sync.read(database, ["one"])["one"] == [Pinned(new.der, "one", PinState.ACTIVE)]


async def test_the_table_follows_one_node_and_all(database: Database) -> None:
    found(database)
    own = make_identity("coordinator", NOW)
    table = PinTable([own.der])
    pins = PinSync(database, table)
    await pins.load()
    assert len(table) == 0
    one, two = admit(database, "one"), admit(database, "two")
    await pins.follow("one")
    assert [pin.node_id for pin in table] == ["one"]
    await pins.load()
    assert {pin.node_id for pin in table} == {"one", "two"}
    new = one.renewed()
    join(database, new, connection=one.pin)
    await pins.follow("one")
    assert pins.is_next(fingerprint(new.der)) and not pins.is_next(fingerprint(one.der))
    membership.confirm_pin(database, new.pin, now=NOW)
    await pins.follow("one")
    assert table.find(one.der) is None and not pins.is_next(fingerprint(new.der))
    remove_node(database, "two", reason="x", actor="root", now=NOW)
    await pins.follow("two")
    assert table.find(two.der).state is PinState.REMOVED


async def test_an_older_reading_is_not_the_last_word(database: Database, second: Database) -> None:
    """rules K22, threats M07: who was revoked while everything was read anew is not let in by that."""
    one = candidate(database, "one")
    pins = PinSync(database, PinTable())
    async with trio.open_nursery() as nursery:
        with held_reading(database, "nodes") as reading:
            nursery.start_soon(pins.load)
            await trio.to_thread.run_sync(reading.wait)
            revocation.revoke_node(second, "one", reason="x", actor="root", now=NOW)
            nursery.start_soon(pins.follow, "one")
            await trio.testing.wait_all_tasks_blocked(0.1)
    assert [(pin.der, pin.state) for pin in pins.table] == [(one.der, PinState.REVOKED)]


@pytest.mark.parametrize("others", [(), ("two",)])
async def test_who_is_revoked_while_it_is_read_is_read_again(
    database: Database, second: Database, others: tuple[str, ...]
) -> None:
    """rules K22, threats M07: what others have asked for at the time counts for nobody who asks later."""
    one = candidate(database, "one")
    for name in others:
        admit(database, name)
    pins = PinSync(database, PinTable())
    async with trio.open_nursery() as nursery:
        with held_reading(database, "nodes") as reading:
            nursery.start_soon(pins.follow, "one")
            await trio.to_thread.run_sync(reading.wait)
            revocation.revoke_node(second, "one", reason="x", actor="root", now=NOW)
            for name in ("one", *others):
                nursery.start_soon(pins.follow, name)
            await trio.testing.wait_all_tasks_blocked(0.1)
    assert {(pin.node_id, pin.state) for pin in pins.table} == {
        ("one", PinState.REVOKED),
        *((name, PinState.ACTIVE) for name in others),
    }
    assert pins.table.find(one.der).state is PinState.REVOKED


async def test_those_that_join_together_are_read_together(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """And where that fails each is read by who waits for it."""
    found(database)
    names = [admit(database, name).node_id for name in ("one", "two", "three")]
    pins, asked, failed = PinSync(database, PinTable()), [], []

    def read(database: Database, node_ids: list[str]) -> dict[str, list[Pinned]]:
        asked.append(node_ids)
        if len(asked) == 1:
            raise OperationalError("select", {}, Exception("disk"))
        return original(database, node_ids)

    async def follow(name: str) -> None:
        try:
            await pins.follow(name)
        except OperationalError:
            failed.append(name)

    original = pin_sync.read
    monkeypatch.setattr(pin_sync, "read", read)
    async with trio.open_nursery() as nursery:
        for name in names:
            nursery.start_soon(follow, name)
    assert len(failed) == 1 and sorted(asked[1]) == sorted(names)
    assert len(asked) == 2 and {pin.node_id for pin in pins.table} == set(names)


@pytest.mark.parametrize("all_of_them", [False, True], ids=["those-that-joined-together", "all"])
async def test_however_many_are_pinned_others_have_their_turn_in_between(database: Database, all_of_them: bool) -> None:
    """TLS takes half a millisecond for each, on the event loop."""
    found(database)
    names = [admit(database, f"n{number}").node_id for number in range(8)]
    pins, seen = PinSync(database, PinTable()), set[int]()

    async def look_on() -> None:
        while len(pins.table) < len(names):
            seen.add(len(pins.table))
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(look_on)
        if all_of_them:
            nursery.start_soon(pins.load)
        for name in names if not all_of_them else ():
            nursery.start_soon(pins.follow, name)
    assert max(later - before for before, later in pairwise(sorted({*seen, len(names)}))) <= 2


async def test_of_a_catalog_that_has_changed_a_little_that_alone_is_read(database: Database) -> None:
    """rules K22, K34: whatever was pinned before the change is what a table that starts from nothing pins."""
    found(database)
    members = {name: admit(database, name) for name in ("one", "two", "three", "four")}
    pins = PinSync(database, PinTable())
    await pins.load()
    new = members["one"].renewed()
    join(database, new, connection=members["one"].pin)
    revocation.revoke_node(database, "two", reason="x", actor="root", now=NOW)
    remove_node(database, "three", reason="x", actor="root", now=NOW)
    await pins.load()
    assert pins.is_next(fingerprint(new.der))
    known = {pin.fingerprint: PinStanding(pin.node_id, pin.state) for pin in pins.table}
    assert known == {
        members["one"].pin: PinStanding("one", PinState.ACTIVE),
        new.pin: PinStanding("one", PinState.ACTIVE),
        members["two"].pin: PinStanding("two", PinState.REVOKED),
        members["three"].pin: PinStanding("three", PinState.REMOVED),
        members["four"].pin: PinStanding("four", PinState.ACTIVE),
    }
    anew = PinSync(database, PinTable())
    await anew.load()
    assert {(pin.der, pin.node_id, pin.state) for pin in anew.table} == {
        (pin.der, pin.node_id, pin.state) for pin in pins.table
    }
    assert not pin_sync.read_differences(database, known).new
    assert membership.confirm_pin(database, new.pin, now=NOW)
    differing = pin_sync.read_differences(database, known)
    assert (differing.gone, differing.new) == ({members["one"].pin}, [])
    await pins.load()
    assert not pins.is_next(new.pin) and pins.table.find(members["one"].der) is None


async def test_who_left_is_not_let_in_where_the_certificate_is_not_kept(database: Database) -> None:
    """rules K22, threats M07: a table that knew the certificate comes to what one that starts from nothing pins."""
    one = candidate(database, "one")
    pins = PinSync(database, PinTable())
    await pins.load()
    assert pins.table.find(one.der).state is PinState.ACTIVE
    remove_node(database, "one", reason="x", actor="root", now=NOW)
    with database.engine.begin() as connection:  # as of a release that kept none, or a damaged one
        connection.execute(delete(schema.objects).where(schema.objects.c.key.like("certificates/%")))
    await pins.load()
    assert pins.table.find(one.der) is None
    await pins.load()
    assert len(pins.table) == 0


@pytest.mark.parametrize("way", ["follow", "load"])
async def test_who_was_readmitted_and_joins_under_another_name_is_known_by_it(database: Database, way: str) -> None:
    """rules K22, P29: the certificate is free by then, and speaks for one node at a time."""
    one = candidate(database, "one")
    pins = PinSync(database, PinTable())
    remove_node(database, "one", reason="x", actor="root", now=NOW)
    await pins.load()
    revocation.readmit(database, AllowlistEntry("one"), actor="root", now=NOW)
    two = Candidate("two", key=one.key, der=one.der)
    allow(database, two)
    assert join(database, two, token_for(database)).outcome == "admitted"
    await (pins.load() if way == "load" else pins.follow("two"))
    assert [(pin.der, pin.node_id, pin.state) for pin in pins.table] == [(one.der, "two", PinState.ACTIVE)]
    await pins.load()
    assert [pin.node_id for pin in pins.table] == ["two"]
