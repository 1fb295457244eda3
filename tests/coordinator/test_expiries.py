"""Everything of a coordinator that ends, as it is read from the database."""

from dataclasses import dataclass, field

import pytest
from sqlalchemy import update

from coordinator.base.settings import DAY, CoordinatorSettings
from coordinator.database import schema
from coordinator.database.database import Database
from coordinator.database.member_ends import MemberEnds
from coordinator.keys.signing_key import SigningKey
from coordinator.membership import admission, operators
from coordinator.replicas import backup_record
from coordinator.runtime import expiries
from coordinator.runtime.expiries import OwnCredentials
from snapshot.bundle import RETIRING
from snapshot.ending import Thing, Urgency
from tests.coordinator.candidates import NOW, TOKEN_KEY, admit
from tests.coordinator.publishing import Press
from wire.certificate import Certificate, make_authority, make_identity

YEAR = 365 * DAY


@dataclass
class Ends:
    """One coordinator's, of a cluster with members."""

    press: Press
    settings: CoordinatorSettings = field(default_factory=CoordinatorSettings)

    def read(self, now: float = NOW) -> dict[str, list[Thing]]:
        own = Certificate.read(make_identity("coord-1", NOW).der)
        ca = Certificate.read(make_authority("ca", NOW).der)
        replica = OwnCredentials("coord-1", [key.key_id for key in self.press.keys], own, (ca,))
        database = self.press.database
        found = expiries.read(database, replica, MemberEnds().read(database), self.settings, now)
        return {what: [each for each in found if each.what == what] for what in {each.what for each in found}}

    def one(self, what: str, now: float = NOW) -> Thing:
        (found,) = self.read(now)[what]
        return found


@pytest.fixture
def ends(database: Database) -> Ends:
    return Ends(Press.founded(database, "node-a", "node-b"))


def test_all_kinds_of_things_are_there(ends: Ends):
    operators.add(ends.press.database, "alice", make_identity("alice", NOW).der, actor="root", now=NOW)
    admission.issue_token(ends.press.database, TOKEN_KEY, lifetime_s=DAY, actor="root", now=NOW, node_id="node-c")
    found = ends.read()
    assert {what: len(each) for what, each in found.items()} == {
        "trust_bundle": 1,
        "root_key": 2,
        "config_key": 1,
        "signing": 1,
        "coordinator_certificate": 1,
        "coordinator_ca": 1,
        "operator_certificate": 1,
        "join_token": 1,
        "backup": 1,
        "node_certificate": 2,
    }
    assert all(each.then and "holdfastctl" in each.remedy for group in found.values() for each in group)
    assert found["trust_bundle"][0].ends == NOW + 90 * DAY
    assert found["operator_certificate"][0].name == "alice"


def test_the_last_config_key_says_that_nothing_can_be_published(ends: Ends):
    key = ends.one("config_key")
    assert "nothing can be published" in key.then
    assert key.remedy == "holdfastctl rotate add"
    assert ends.one("signing").ends == key.ends
    assert ends.one("signing", NOW + YEAR).urgency(NOW + YEAR) is Urgency.ENDED


def test_root_keys_that_are_needed_say_so(ends: Ends):
    for key in ends.read()["root_key"]:
        assert "too few root keys" in key.then
        assert key.remedy == "holdfastctl rotate add --purpose root"


def test_a_key_that_retires_ends_as_planned_and_a_replica_without_a_key_has_ended(ends: Ends):
    press = ends.press
    old, successor = press.bundles.config, SigningKey.generate()
    press.add_bundle(keys=(old, successor), statuses={old.key_id: RETIRING})
    keys = {each.name: each for each in ends.read()["config_key"]}
    assert keys[old.key_id].urgency(NOW) is Urgency.PLANNED
    assert keys[old.key_id].remedy.startswith(f"holdfastctl rotate remove {old.key_id[7:19]}, from 20")
    assert keys[successor.key_id].urgency(NOW) is Urgency.FINE
    assert ends.one("signing").urgency(NOW) is Urgency.ENDED  # it holds the old one alone
    press.keys = (old, successor)
    assert ends.one("signing").urgency(NOW) is Urgency.FINE


def test_tokens_end_as_planned(ends: Ends):
    database = ends.press.database
    told = {"lifetime_s": DAY, "actor": "root", "now": NOW, "node_id": "node-a"}
    _, claims = admission.issue_token(database, TOKEN_KEY, **told)
    found = {each.name: each for each in ends.read().get("join_token", [])}
    assert found[claims.jti].urgency(NOW + DAY - 1) is Urgency.PLANNED
    assert found[claims.jti].remedy == "holdfastctl tokens create --node node-a"
    admission.revoke_token(database, claims.jti, actor="root", now=NOW)
    assert claims.jti not in {each.name for each in ends.read().get("join_token", [])}


def test_a_token_that_lets_nobody_in_any_more_is_told_no_more(ends: Ends):
    database = ends.press.database
    told = {"lifetime_s": DAY, "actor": "root", "now": NOW, "node_id": "node-a"}
    _, claims = admission.issue_token(database, TOKEN_KEY, **told)
    with database.change(actor="x", now=NOW) as transaction:
        table = schema.tokens
        transaction.run(update(table).where(table.c.jti == claims.jti).values(used=1, used_at=NOW, used_by="node-a"))
        transaction.audit("test", claims.jti, None, {})
    assert claims.jti not in {each.name for each in ends.read().get("join_token", [])}


def test_a_cluster_that_has_no_backup_says_so_and_one_that_has_is_quiet(ends: Ends):
    database = ends.press.database
    none = ends.one("backup")
    assert none.name == "none was made yet"
    assert (none.urgency(NOW + 6 * DAY), none.urgency(NOW + 7 * DAY)) == (Urgency.SOON, Urgency.ENDED)
    backup_record.add(database, "coord-2", "other.tar", {}, actor="root", at=NOW + DAY)
    assert ends.one("backup").name == "none was made yet"  # another machine's keys are in it
    backup_record.add(database, "coord-1", "one.tar", {"bytes": 1}, actor="root", at=NOW + 6 * DAY)
    newest = ends.one("backup")
    assert (newest.name, newest.begins) == ("one.tar", NOW + 6 * DAY)
    assert newest.urgency(NOW + 7 * DAY, within_s=30 * DAY) is Urgency.FINE  # the next one is the timer's
    assert newest.urgency(NOW + 11 * DAY) is Urgency.SOON
    ends.settings = CoordinatorSettings(backup_age_s=0)
    assert "backup" not in ends.read()


def test_members_certificates_renew_themselves(ends: Ends):
    for each in ends.read()["node_certificate"]:
        assert each.urgency(each.begins + 0.85 * (each.ends - each.begins), within_s=YEAR) is Urgency.FINE
        assert each.urgency(each.begins + 0.91 * (each.ends - each.begins)) is Urgency.SOON


def test_in_short_members_are_one_and_tokens_none(ends: Ends):
    admission.issue_token(ends.press.database, TOKEN_KEY, lifetime_s=DAY, actor="root", now=NOW, node_id="node-c")
    things = [each for group in ends.read().values() for each in group]
    short = expiries.in_short(things)
    assert [each.name for each in short if each.what == "node_certificate"] == ["first of 2"]
    assert [each for each in short if each.what == "join_token"] == []
    assert len(short) == len(things) - 2


def test_a_new_certificate_of_a_member_is_seen_and_one_that_left_is_not(database: Database):
    press = Press.founded(database, "node-a")
    members = MemberEnds()
    (before,) = members.read(database)
    assert members.read(database) == [before]
    admit(database, "node-b")
    assert [each.node_id for each in members.read(database)] == ["node-a", "node-b"]
    assert press.database is database
