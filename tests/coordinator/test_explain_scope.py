"""One scope of one node in whole: value, source, rule, signer, version, who holds it."""

import pytest

from coordinator.base.refusal import Code, Refused
from coordinator.base.settings import CoordinatorSettings
from coordinator.database import documents
from coordinator.database.database import Database
from coordinator.fleet import explain
from coordinator.fleet.explain_scope import VALUE_BYTES, explain_scope
from coordinator.membership import revocation
from coordinator.reports import heartbeat_form, heartbeats
from coordinator.trust import trust_import
from snapshot import canonical
from tests.coordinator import reports
from tests.coordinator.publishing import STATE, Press
from tests.coordinator.test_trust_import import GOOD, given_up, recovery
from wire.operators.fleet_answers import DeclaredSource, ScopeExplanation

FRONT = f"state.yaml:{STATE.split(chr(10)).index('id: front')}"  # the line above
MANY = "\n---\n".join(
    f"{{kind: Route, id: r{number}, spec: {{organization: acme, service: web, match: {{hosts: [h{number}.example]}}}}}}"
    for number in range(300)
)


@pytest.fixture
def press(database: Database) -> Press:
    return Press.published(database, "node-a", "node-b")


def asked(press: Press, scope: str, node_id: str = "node-a", **how: object) -> ScopeExplanation:
    return explain_scope(press.database, node_id, scope, now=press.now, **how)


def tell(press: Press, node_id: str, *, scope: str = "route_policy", **changes: object) -> None:
    """A report that the node has active what is published for it, but for the changes."""
    entry = press.listing(node_id)[scope]
    active = {**reports.mark(entry.config_version), "content_hash": entry.content_hash, **changes}
    heartbeat = heartbeat_form.parse(reports.body(node_id, scopes={scope: reports.scope(active)}))
    heartbeats.record(press.database, [heartbeat], now=press.now)


def revoke(press: Press, category: str, value: str) -> None:
    revocation.revoke(press.database, category, value, reason="test", actor="root", now=press.now)


def standing(told: ScopeExplanation) -> dict[str, str]:
    return {each.entry: each.stands for each in told.entries}


def test_what_is_published_with_its_signer_its_value_and_its_source(press: Press) -> None:
    """rules S17"""
    told, entry = asked(press, "route_policy"), press.listing()["route_policy"]
    assert told.may_hold
    assert told.because == "granted by the role core_mesh, egress_service"
    assert told.rules == ("format.md 9", "rules S17")
    version = told.published
    assert version is not None
    assert (version.authority_epoch, version.config_version) == entry.pair
    assert (version.content_hash, version.snapshot_id) == (entry.content_hash, entry.snapshot_id)
    assert version.published_at == press.now
    assert version.issued_at < version.refresh_after < version.expires_at
    (signer,) = version.signers
    assert (signer.key_id, signer.status, signer.purpose) == (press.bundles.config.key_id, "active", "config")
    assert signer.fault is None and version.threshold == 1
    (section,) = told.sections
    assert section.value["front"]["match"]["hosts"] == ["www.example"]
    assert section.size == len(canonical.dumps(section.value))
    (one,) = told.entries
    assert (one.section, one.entry, one.stands) == (section.name, "front", "as_declared")
    assert one.sources == (DeclaredSource("Route", "front", FRONT),)
    assert told.differs == {} and told.notes == ()


def test_every_scope_type_of_a_node_can_be_asked_for(press: Press) -> None:
    """What may be held has a version, entries with a source or a word why not, and what may not has none of it."""
    for each in explain.explain(press.database, "node-a"):
        told = asked(press, each.scope)
        assert (told.may_hold, told.because) == (each.may_hold, each.because)
        assert (told.published is None) == (not each.may_hold)
        assert all(entry.because for entry in told.entries)
        stands = "signed" if each.scope == "trust_bundle" else "as_declared"
        assert {entry.stands for entry in told.entries} <= {stands}


def test_a_trust_bundle_is_signed_by_roots(press: Press) -> None:
    told = asked(press, "trust_bundle")
    assert told.rules == ("format.md 8", "format.md 9")
    assert {signer.purpose for signer in told.published.signers} == {"root"}
    assert told.published.threshold == len(told.published.signers) == 2
    assert {each.section for each in told.entries} == {"authority", "keys", "revocations", "thresholds"}


def test_what_a_role_does_not_grant(press: Press) -> None:
    """rules S18, S17"""
    told = asked(press, "peer_directory", "node-b")
    assert not told.may_hold and told.published is None and told.entries == () and told.sections == ()
    assert told.because == "none of its roles (ingress) grants it; these do: core_mesh, storage_config, thin"
    assert told.holders.standing == "unheard"


def test_before_the_first_publication_what_is_declared_is_told(database: Database) -> None:
    press = Press.founded(database, "node-a")
    told = asked(press, "route_policy")
    assert told.published is None and told.sections == ()
    assert standing(told) == {"front": "not_published"}
    assert told.entries[0].sources == (DeclaredSource("Route", "front", FRONT),)
    assert "nothing is published" in told.notes[0]
    assert set(told.differs.values()) == {"set"}


def test_what_is_declared_and_what_is_published_are_told_apart(press: Press) -> None:
    """A changed route, one that comes and one that goes; nothing is named that gave the old value."""
    press.apply(MANY.partition("\n---\n")[0])
    press.publish()
    other = STATE.replace("www.example", "other.example")
    press.apply(f"{other}---\n{MANY.split(chr(10) + '---' + chr(10))[1]}", prune=True)
    told = asked(press, "route_policy")
    assert standing(told) == {"front": "differs", "r0": "not_declared", "r1": "not_published"}
    by_name = {each.entry: each for each in told.entries}
    assert by_name["r0"].sources == ()
    assert by_name["r0"].because == "nothing that is declared gives it any more"
    assert by_name["front"].sources == (DeclaredSource("Route", "front", FRONT),)
    assert len(told.differs) == 3
    shown = {name: value for each in told.sections for name, value in each.value.items()}
    assert shown["front"]["match"]["hosts"] == ["www.example"]
    press.publish()
    assert set(standing(asked(press, "route_policy")).values()) == {"as_declared"}


def test_what_is_many_is_bounded_and_what_is_large_is_shown_by_its_name(press: Press) -> None:
    press.apply(MANY)
    press.publish()
    told = asked(press, "route_policy", most=200)
    assert (len(told.entries), told.entries_total) == (200, 301)
    large = next(each for each in told.sections if each.size > VALUE_BYTES)
    assert large.value is None and not large.is_shown
    one = asked(press, "route_policy", section=large.name)
    assert [each.name for each in one.sections] == [large.name]
    assert one.sections[0].is_shown and len(canonical.dumps(one.sections[0].value)) == large.size
    assert {each.entry for each in one.entries} == set(one.sections[0].value)
    assert sum(each.size for each in told.sections if each.is_shown) <= VALUE_BYTES * len(told.sections)


@pytest.mark.parametrize(
    ("node_id", "scope", "section", "named"),
    [
        ("stranger", "route_policy", None, "nodes list"),
        ("node-a", "routes", None, "route_policy"),
        ("node-a", "head", None, "route_policy"),
        ("node-a", "qos_policy", "nothing", "policies"),
        ("node-b", "peer_directory", "peers.00", "it has none"),
    ],
)
def test_what_there_is_not(press: Press, node_id, scope, section, named) -> None:
    with pytest.raises(Refused) as refused:
        asked(press, scope, node_id, section=section)
    assert refused.value.code is Code.NOT_FOUND
    assert named in refused.value.remedy
    assert asked(press, "route_policy").may_hold


def test_a_revoked_node_is_told_of_no_more(press: Press) -> None:
    """rules K22"""
    revocation.revoke_node(press.database, "node-b", reason="lost", actor="root", now=press.now)
    with pytest.raises(Refused):
        asked(press, "route_policy", "node-b")


def test_a_node_that_lost_its_role(press: Press) -> None:
    press.apply(STATE.replace("roles: [ingress]", "roles: [egress_service]").replace("core_mesh, ", ""))
    told = asked(press, "qos_policy")
    assert not told.may_hold and told.published is not None
    assert told.notes == ("it is announced still: the next head does not list it",)
    press.publish()
    assert asked(press, "qos_policy").published is None


def test_what_was_revoked_without_being_compiled_otherwise(press: Press) -> None:
    """rules S61: a role that alone grants the scope type; a service that it holds"""
    clean = asked(press, "qos_policy"), asked(press, "service_assignment/web")
    assert [each.notes for each in clean] == [(), ()]
    revoke(press, "role_assignments", "node-a/core_mesh")
    assert "revoked for this node: core_mesh" in asked(press, "qos_policy").notes[0]
    assert asked(press, "route_policy").notes == ()  # egress_service grants it as well
    revoke(press, "service_ids", "web")
    assert asked(press, "service_assignment/web").notes == ("the service web is revoked",)
    assert asked(press, "service_assignment/web").entries == clean[1].entries


def overview(press: Press, scope: str) -> object:
    """What is said to change next where all scopes are listed."""
    (found,) = [one for one in explain.explain(press.database, "node-a") if one.scope == scope]
    return found.differs


def test_a_recovery_holds_back_what_is_declared(press: Press) -> None:
    """rules S65, S87"""
    good = given_up(press)
    trust_import.add_recovery(press.database, recovery(press, "route_policy", good), actor="root", now=press.now)
    assert asked(press, "route_policy").differs == overview(press, "route_policy") != {}, "it goes back next"
    press.publish()
    told = asked(press, "route_policy")
    assert told.published.config_version == good
    assert told.notes == (f"a recovery went back to version {good}: what is declared is held back",)
    assert told.differs == overview(press, "route_policy") == {}
    assert standing(told) == {"front": "differs"}
    press.apply(GOOD)
    assert (asked(press, "route_policy").differs, standing(asked(press, "route_policy"))) == (
        {},
        {"front": "as_declared"},
    )
    press.apply(GOOD.replace("www.example", "next.example"))
    assert asked(press, "route_policy").notes == ()
    assert asked(press, "route_policy").differs == overview(press, "route_policy") != {}


def test_a_version_past_its_time(press: Press) -> None:
    press.now += CoordinatorSettings().snapshot_lifetime_s + 1
    assert "has expired" in asked(press, "route_policy").notes[0]


def test_reports_that_follow_a_publication(press: Press) -> None:
    """rules S70: a report moves what is said of the holder and nothing else."""
    before = asked(press, "route_policy")
    assert (before.holders.standing, before.holders.reported) == ("unheard", None)
    tell(press, "node-a")
    told = asked(press, "route_policy")
    assert told.holders.standing == "same"
    assert told.holders.reported.active.content_hash == told.published.content_hash
    assert (told.published, told.entries) == (before.published, before.entries)
    assert documents.document(press.database, "node-a", told.published.snapshot_id)
