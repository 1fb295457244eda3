"""The manifest names who the coordinators are, each by the certificate of its identity (rules H0, H7, H24)."""

from dataclasses import replace

import pytest
from sqlalchemy import update

from coordinator.base.refusal import Code, Refused
from coordinator.database import history, history_check, schema
from coordinator.database.database import Database
from coordinator.database.history import LinkedHistory
from coordinator.database.own_entry import OwnEntry
from coordinator.keys import identity
from coordinator.membership import replicas
from coordinator.setup import begin_history, pin_identity
from snapshot import canonical
from tests.coordinator import copies, entered
from tests.coordinator.candidates import FOUNDING, NOW, contents, found
from tests.coordinator.daemon import refusal, running
from tests.coordinator.founding import Founded
from tests.coordinator.histories import HISTORY
from tests.coordinator.test_replicas import SECOND

OWN, OTHER = "sha256:" + "0a" * 32, "sha256:" + "0b" * 32
NAME = SECOND.coordinator_id


@pytest.fixture
def linked(database: Database) -> Database:
    """A cluster with a second coordinator, whose identity is pinned; the first one's is not."""
    database.history = HISTORY
    copies.made(database, "with a pinned second", add_second)
    return database


def add_second(database: Database) -> None:
    found(database)
    entered.add(database, replace(SECOND, identity_sha256=OWN), actor="root", now=NOW)


def works_as(database: Database, name: str, pin: str) -> None:
    database.history = LinkedHistory(HISTORY.key, OwnEntry(name, pin))


def change(database: Database) -> None:
    with database.change(actor="root", now=NOW) as transaction:
        transaction.audit("test", "something")


def refused(database: Database) -> str:
    """For this, and nothing has changed."""
    before = contents(database, "audit", "pointers", "transitions", "objects")
    for attempt in (change, history.look):
        with pytest.raises(Refused) as caught:
            attempt(database)
        assert caught.value.code is Code.NOT_IN_MANIFEST
    assert contents(database, "audit", "pointers", "transitions", "objects") == before
    return caught.value.detail


def manifest(database: Database) -> dict:
    with database.read() as transaction:
        newest = HISTORY.latest(transaction)
        return canonical.loads(history.get(transaction, history.MANIFESTS, newest.transition.manifest))


def compared(database: Database) -> list[str]:
    return [fault for name in history_check.COMPARED if (fault := history_check.compare(database, name))]


def test_the_manifest_pins_the_identity_and_not_what_nodes_are_shown(linked: Database) -> None:
    """A renewed server certificate makes no other manifest; it is proven by the digest of the entries."""
    assert manifest(linked)["coordinators"][NAME]["certificate_sha256"] == OWN
    before = manifest(linked)
    replicas.follow(linked, NAME, OTHER, SECOND.token_public_key, actor=NAME, now=NOW + 9)
    assert (manifest(linked), compared(linked)) == (before, [])
    linked.is_tampered = True
    with linked.engine.begin() as connection:
        connection.execute(update(schema.coordinators).values(token_public_key=b"another"))
    assert compared(linked) == ["rows of coordinators were changed, added or taken away from outside"]


def test_who_was_taken_away_is_refused_at_once_and_who_stays_goes_on(linked: Database) -> None:
    """Though an older manifest names it"""
    works_as(linked, NAME, OWN)
    change(linked)
    linked.history = HISTORY
    replicas.remove(linked, NAME, answering=FOUNDING.coordinator_id, actor="root", now=NOW)
    works_as(linked, NAME, OWN)
    assert f"names no coordinator {NAME}" in refused(linked)
    works_as(linked, FOUNDING.coordinator_id, "")
    change(linked)


@pytest.mark.parametrize("pin", [OTHER, ""])
def test_another_certificate_than_the_pinned_one_is_refused(linked: Database, pin: str) -> None:
    works_as(linked, NAME, pin)
    assert f"names {NAME} with the certificate {OWN}" in refused(linked)
    works_as(linked, NAME, OWN)
    change(linked)


def test_the_certificate_that_nodes_are_shown_is_no_identity_once_one_is_pinned(linked: Database) -> None:
    works_as(linked, NAME, SECOND.certificate_sha256)
    refused(linked)


def test_one_without_an_identity_goes_on_until_one_is_pinned(linked: Database) -> None:
    """A cluster from before there were identities"""
    works_as(linked, FOUNDING.coordinator_id, "")
    change(linked)
    linked.history = HISTORY
    replicas.pin(linked, FOUNDING.coordinator_id, OTHER, actor="root", now=NOW)
    works_as(linked, FOUNDING.coordinator_id, "")
    refused(linked)
    works_as(linked, FOUNDING.coordinator_id, OTHER)
    change(linked)


def test_two_coordinators_have_no_identity_in_common(linked: Database) -> None:
    with pytest.raises(Refused) as caught:
        replicas.pin(linked, FOUNDING.coordinator_id, OWN, actor="root", now=NOW)
    assert caught.value.code is Code.IN_USE
    assert manifest(linked)["coordinators"][FOUNDING.coordinator_id]["certificate_sha256"] != OWN


def test_a_history_from_before_the_entries_had_a_digest_goes_on(linked: Database) -> None:
    """The link of an earlier version says nothing of them; the next one does."""
    with linked.read() as transaction:
        newest = HISTORY.latest(transaction)
    older = {name: said for name, said in newest.state["digests"].items() if name != "coordinators"}
    state = canonical.dumps({**newest.state, "digests": older})
    with linked.engine.begin() as connection:
        connection.execute(schema.running_digests.delete().where(schema.running_digests.c.name == "coordinators"))
    with linked.record() as transaction:
        link = replace(newest.transition, state=history._put(transaction, history.STATES, state))
        value = history._put(transaction, history.TRANSITIONS, link.to_bytes())
        transaction.run(update(schema.pointers).values(HISTORY.sign("prod", value)._asdict()))
        at = schema.transitions.c.number == newest.mark.number
        transaction.run(update(schema.transitions).where(at).values(transition=value))
    assert compared(linked) == []
    change(linked)
    with linked.read() as transaction:
        assert "coordinators" in HISTORY.latest(transaction).state["digests"]
    assert compared(linked) == []


async def test_a_coordinator_that_runs_stops_once_it_is_not_named_and_says_so(founded: Founded) -> None:
    """Not ready, nothing changed or signed, no word for nodes; and all of it goes on once it is named again."""
    at = founded.configuration()
    begin_history.begin(at, anew=False, actor="root", now=founded.now)
    made = pin_identity.pin(at, anew=False, actor="root", now=founded.now)
    async with running(founded) as world:
        node = await world.admit("node-a")
        database = Database(founded.url)
        database.history = world.daemon.coordinator.database.history
        beside = replace(database.history, own=None)
        database.history = beside
        replicas.pin(database, at.coordinator_id, OTHER, actor="root", now=founded.now)
        before = contents(database, "audit", "heads", "allowlist")
        assert await refusal(world.ask("POST", "/v1/allowlist/node-b", {})) == "not_in_manifest"
        await world.daemon.keeper.look()
        status, body = await world.probe("/probe/readiness")
        assert (status, b"not_in_manifest" in body, OTHER.encode() in body) == (503, True, True)
        assert await refusal(node.head()) == "not_ready"
        assert contents(database, "audit", "heads", "allowlist") == before
        await world.daemon.own_report.note()
        (own,) = (await world.ask("GET", "/v1/coordinators/status"))["coordinators"]
        assert (own["state"], own["faults"][0][:15], own["identity"]) == ("not_ready", "not_in_manifest", OTHER)
        assert own["lag"] > 0
        replicas.pin(database, at.coordinator_id, made.certificate_sha256, actor="root", now=founded.now)
        database.close()
        await world.daemon.keeper.look()
        await world.ask("POST", "/v1/allowlist/node-b", {})
        assert (await world.probe("/probe/readiness"))[0] == 200
        await world.daemon.own_report.note()
        answer = await world.ask("GET", "/v1/coordinators/status")
        (own,) = answer["coordinators"]
        assert (own["state"], own["manifest"]) == ("ready", answer["manifest"])


# ---- holdfastctl coordinators pin


def pin(founded: Founded, *, anew: bool = False) -> pin_identity.PinnedIdentity:
    return pin_identity.pin(founded.configuration(), anew=anew, actor="uid:0", now=founded.now)


def code_of_pin(founded: Founded, *, anew: bool = False) -> Code:
    with pytest.raises(Refused) as caught:
        pin(founded, anew=anew)
    return caught.value.code


def test_an_identity_is_made_and_pinned_or_nothing_is(founded: Founded) -> None:
    file = founded.folder / "keys" / identity.FILE
    assert (code_of_pin(founded), file.exists()) == (Code.NO_STATE, False)
    begin_history.begin(founded.configuration(), anew=False, actor="root", now=founded.now)
    running = Database(founded.url)
    running.claim()
    assert (code_of_pin(founded), file.exists()) == (Code.IN_USE, False)
    running.close()
    made = pin(founded)
    assert (made.is_new, made.identity, file.stat().st_mode & 0o777) == (True, file, 0o600)
    assert identity.pin_of(identity.load(file.parent, {})) == made.certificate_sha256
    assert code_of_pin(founded) is code_of_pin(founded, anew=True) is Code.ALREADY_INITIALISED


def test_another_identity_is_pinned_only_where_that_is_asked_for(founded: Founded) -> None:
    begin_history.begin(founded.configuration(), anew=False, actor="root", now=founded.now)
    first = pin(founded)
    first.identity.rename(founded.folder / "aside.pem")
    assert code_of_pin(founded) is Code.CONFLICT
    assert not first.identity.exists()
    second = pin(founded, anew=True)
    assert (second.is_new, second.number) == (True, first.number + 1)
    assert second.certificate_sha256 != first.certificate_sha256
    (founded.folder / "aside.pem").replace(first.identity)
    assert code_of_pin(founded) is Code.CONFLICT
    assert pin(founded, anew=True).certificate_sha256 == first.certificate_sha256


@pytest.mark.parametrize("data", [b"", b"identity", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
def test_what_is_no_identity_is_refused(data: bytes) -> None:
    with pytest.raises(identity.UnusableKeyError):
        identity.parse(data)
