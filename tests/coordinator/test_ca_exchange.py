"""The CA of the coordinators is exchanged: who is told of which, and when one may go (rules K15, L15)."""

import pytest

from coordinator.base.refusal import Code, Refused
from coordinator.database import audit_log, catalog
from coordinator.database.database import Database
from coordinator.declared.change_impact import affected_scopes
from coordinator.declared.model import with_authorities
from coordinator.declared.next_model import next_model
from coordinator.membership import ca_exchange, revocation
from coordinator.reports import heartbeats
from snapshot.identifiers import Scope
from tests.coordinator import entered
from tests.coordinator.candidates import FOUNDING, NOW, contents
from tests.coordinator.publishing import Press
from tests.coordinator.reports import heartbeat, mark, scope
from tests.coordinator.test_replicas import SECOND
from wire.certificate import Certificate, fingerprint, issue_server, make_authority, make_identity

TABLES = ("node_authorities", "nodes", "cluster", "audit", "coordinators")
FIRST, NEXT, MIRRORS = (make_authority(f"{name} CA", NOW) for name in ("first", "next", "mirrors"))
A, B, C = (fingerprint(ca.der) for ca in (FIRST, NEXT, MIRRORS))
PRESENT = (Certificate.read(FIRST.der),)


def shows(press: Press, ca=FIRST, name: str = FOUNDING.coordinator_id, **more: object) -> str:
    """A coordinator starts, or reloads, with a certificate of that CA, which lies beside it."""
    shown = issue_server(ca, ["localhost"], NOW).der
    known = (Certificate.read(ca.der),)
    given = {"is_exchanged": False} | more
    return ca_exchange.follow(press.database, name, shown, known, **given, now=press.now)


@pytest.fixture
def press(database: Database) -> Press:
    """Two members; the coordinator shows a certificate of the first CA."""
    press = Press.published(database, "node-a", "node-b")
    shows(press)
    return press


def act(press: Press, action, *arguments: object, **more: object):
    press.now += 1
    return action(press.database, *arguments, **more, actor="alice", now=press.now)


def begin(press: Press, ca=NEXT, *others):
    return act(press, ca_exchange.begin, PRESENT, ca.der, [other.der for other in others])


def refused(press: Press, action, *arguments: object, **more: object) -> Refused:
    """Nothing of it remains."""
    before = contents(press.database, *TABLES)
    with pytest.raises(Refused) as caught:
        act(press, action, *arguments, **more)
    assert contents(press.database, *TABLES) == before
    return caught.value


def told(press: Press, node_id: str = "node-a") -> set[str]:
    """The CAs in the document that its head lists."""
    return set(press.section("node_bootstrap", "authorities", node_id))


def report(press: Press, node_id: str, features=("authorities", "candidates", "config")) -> None:
    entry = press.listing(node_id)["node_bootstrap"]
    held = mark(entry.config_version, epoch=entry.authority_epoch) | {"content_hash": entry.content_hash}
    said = heartbeat(node_id, scopes={"node_bootstrap": scope(held)}, features=list(features))
    heartbeats.record(press.database, [said], now=press.now)


def entries(press: Press):
    return audit_log.read(press.database)


def unconfirmed(press: Press) -> dict[str, str]:
    return {each.node_id: each.why for each in ca_exchange.status(press.database).unconfirmed}


def test_before_the_first_exchange_nothing_is_listed(press: Press) -> None:
    """Nodes go by their file: it may name others, of mirrors"""
    assert ca_exchange.status(press.database).authorities == ()
    assert told(press) == set()


def test_an_exchange_from_its_begin_to_its_end(press: Press) -> None:
    """rules K15, L15: both, until every member and every coordinator is with the next one; then that one alone"""
    begin(press)
    assert [each.standing for each in ca_exchange.status(press.database).authorities] == ["current", "next"]
    press.publish()
    assert told(press) == told(press, "node-b") == {A, B}
    error = refused(press, ca_exchange.finish)
    assert error.code is Code.CA_IN_USE and FOUNDING.coordinator_id in error.detail
    shows(press, NEXT)
    assert unconfirmed(press) == dict.fromkeys(("node-a", "node-b"), "has not reported")
    report(press, "node-a")
    error = refused(press, ca_exchange.finish)
    assert error.code is Code.CA_IN_USE
    assert error.detail == "1 members have not confirmed the next CA, and would reach no coordinator: node-b"
    assert "--despite-unconfirmed" in error.remedy and "files" in error.remedy
    report(press, "node-b")
    act(press, ca_exchange.finish)
    press.publish()
    assert told(press) == told(press, "node-b") == {B}
    actions = [entry.action for entry in entries(press) if entry.action.startswith("ca.")]
    assert sorted(actions) == ["ca.begin", "ca.finish"]


def test_who_reads_no_list_or_holds_an_older_one_has_not_confirmed(press: Press) -> None:
    """An older agent passes over what it does not know (format.md 1), and believes its file for ever"""
    report(press, "node-a")
    begin(press)
    assert unconfirmed(press)["node-a"] == "holds no node_bootstrap that names it"
    press.publish()
    report(press, "node-a", features=("config",))
    assert "its agent reads no list" in unconfirmed(press)["node-a"]
    revocation.revoke_node(press.database, "node-a", reason="gone", actor="alice", now=press.now)
    assert set(unconfirmed(press)) == {"node-b"}


def test_an_operator_may_say_so_and_the_audit_log_has_it(press: Press) -> None:
    begin(press)
    shows(press, NEXT)
    act(press, ca_exchange.finish, despite_unconfirmed=True)
    (entry,) = [entry for entry in entries(press) if entry.action == "ca.finish"]
    assert entry.after == {"despite_unconfirmed": True}


def test_it_is_given_up_as_long_as_nobody_shows_the_next_one(press: Press) -> None:
    begin(press)
    shows(press, NEXT)
    assert refused(press, ca_exchange.cancel).code is Code.CA_IN_USE
    shows(press, FIRST)
    act(press, ca_exchange.cancel)
    press.publish()
    assert told(press) == {A}, "a list is a list: the file counts no more"
    assert refused(press, ca_exchange.cancel).code is Code.CONFLICT
    begin(press, MIRRORS)


def test_what_cannot_begin(press: Press) -> None:
    leaf = make_identity("node-a", NOW).der
    assert refused(press, ca_exchange.begin, PRESENT, leaf, []).code is Code.BAD_KEY
    assert refused(press, ca_exchange.begin, PRESENT, b"nonsense", []).code is Code.BAD_KEY
    assert refused(press, ca_exchange.begin, PRESENT, FIRST.der, []).code is Code.CONFLICT
    assert refused(press, ca_exchange.begin, (), NEXT.der, []).code is Code.BAD_KEY
    assert refused(press, ca_exchange.finish).code is Code.CONFLICT
    others = [make_authority(str(number), NOW).der for number in range(ca_exchange.MOST)]
    assert refused(press, ca_exchange.begin, PRESENT, NEXT.der, others).code is Code.BAD_REQUEST
    begin(press)
    assert refused(press, ca_exchange.begin, PRESENT, MIRRORS.der, []).code is Code.CONFLICT


def test_every_coordinator_counts(press: Press) -> None:
    """Nodes would refuse one that shows another CA's from the moment on that a list is out"""
    entered.add(press.database, SECOND, actor="root", now=press.now)
    assert SECOND.coordinator_id in refused(press, ca_exchange.begin, PRESENT, NEXT.der, []).detail
    shows(press, FIRST, SECOND.coordinator_id)
    begin(press)
    shows(press, NEXT)
    assert SECOND.coordinator_id in refused(press, ca_exchange.finish, despite_unconfirmed=True).detail
    shows(press, NEXT, SECOND.coordinator_id)
    act(press, ca_exchange.finish, despite_unconfirmed=True)


def test_the_ca_of_a_mirror_stays_until_it_is_dropped(press: Press) -> None:
    """A list ends what the file says of others as well"""
    begin(press, NEXT, MIRRORS)
    shows(press, NEXT)
    act(press, ca_exchange.finish, despite_unconfirmed=True)
    press.publish()
    assert told(press) == {B, C}
    assert refused(press, ca_exchange.drop, B).code is Code.CA_IN_USE
    assert refused(press, ca_exchange.drop, A).code is Code.NOT_FOUND
    act(press, ca_exchange.drop, C)
    press.publish()
    assert told(press) == {B}


@pytest.mark.parametrize("was_listed", [True, False])
def test_a_coordinator_whose_ca_the_restored_database_lacks_lists_it(press: Press, was_listed: bool) -> None:
    """rules K41: nodes would be cut off by a list, or by no list, from before the exchange"""
    if was_listed:
        begin(press)
        act(press, ca_exchange.cancel)
    assert shows(press, MIRRORS, is_exchanged=True) == C
    press.publish()
    assert C in told(press)
    assert ca_exchange.status(press.database).authorities[0].standing == "current"
    assert "ca.found" in {entry.action for entry in entries(press)}
    before = contents(press.database, *TABLES)
    shows(press, MIRRORS, is_exchanged=True)
    assert contents(press.database, *TABLES) == before


def test_a_certificate_of_nobody_known_is_noted_as_such(press: Press) -> None:
    shown = issue_server(NEXT, ["localhost"], NOW).der
    name = FOUNDING.coordinator_id
    assert ca_exchange.follow(press.database, name, shown, PRESENT, is_exchanged=True, now=press.now) == ""
    assert refused(press, ca_exchange.begin, PRESENT, NEXT.der, []).code is Code.BAD_KEY


def test_another_list_touches_that_scope_of_every_member_and_nothing_else(press: Press) -> None:
    """rules K21"""
    with press.database.read() as transaction:
        before = catalog.load(transaction)
    after = with_authorities(before, (FIRST.der,))
    assert affected_scopes(before, after) == {(name, Scope("node_bootstrap")) for name in ("node-a", "node-b")}
    again = next_model(after, {}, {})
    assert again.authorities == after.authorities and affected_scopes(after, again) == frozenset()
