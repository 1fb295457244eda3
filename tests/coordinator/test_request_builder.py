"""What root keys are asked to sign, from what stands in the database (rules K54, S65, S87)."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import delete, insert

from coordinator.base.refusal import Code, Refused
from coordinator.base.settings import CoordinatorSettings
from coordinator.database import schema
from coordinator.database.database import Database
from coordinator.keys import keystore
from coordinator.membership import admission, revocation
from coordinator.setup import initialise
from coordinator.setup.cluster_request import ClusterRequest
from coordinator.setup.opening import with_history
from coordinator.trust import request_builder, trust_import
from coordinator.trust.ceremony import Add, PublicKey, RaiseEpoch, Remove, Retire
from coordinator.trust.signing_requests import SigningRequest
from snapshot.bundle import CONFIG, ROOT
from snapshot.identifiers import format_time
from snapshot.manifest import RecoveryManifest, parse_recovery
from tests.fakes.cluster import key
from wire.operators.operator_answers import AllowlistEntry

NOW = 1_800_000_000.0
DAY = 86_400
SETTINGS = CoordinatorSettings()
HASH = "sha256:" + "ab" * 32


class Standing:
    """A cluster that `init` has made, and its root keys."""

    def __init__(self, folder: Path, url: str) -> None:
        given = ClusterRequest("prod", "coord-1", "https://localhost:7443", url, folder / "state", folder / "roots")
        self.made = initialise.initialise(given, actor="root", now=NOW)
        self.roots = keystore.find([given.root_keys], [])
        self.database = with_history(Database(url), folder / "state" / "keys")
        self.now = NOW

    def request(self, *wishes) -> SigningRequest:
        return request_builder.bundle_request(self.database, wishes, SETTINGS, self.now)

    def lead(self, *wishes) -> SigningRequest:
        request = self.request(*wishes)
        for one in self.roots[:2]:
            request = request.with_signature(one)
        trust_import.add_trust_bundle(self.database, request.document().to_bytes(), actor="root", now=self.now)
        return request

    def publish(self, *versions: int, epoch: int = 1, kept: bool = True) -> None:
        """Rows of versions that were published for n1, as heads.publish writes them."""
        with self.database.change(actor="x", now=self.now) as transaction:
            for version in versions:
                snapshot_id = f"{epoch}-{version}"
                row = {"node_id": "n1", "scope": "route_policy", "authority_epoch": epoch, "config_version": version}
                entry = {"content_hash": HASH, "snapshot_id": snapshot_id, "published_at": self.now}
                transaction.run(insert(schema.published).values(**row, **entry))
                about = {"kind": "snapshot", "subject": "n1", "signatures": "[]", "envelope": b"", "manifest": b""}
                document = {name: value for name, value in {**row, **entry, **about}.items() if name != "node_id"}
                transaction.run(insert(schema.documents).values(**document, issued_at=1, expires_at=2))
            if not kept:
                transaction.run(
                    delete(schema.documents).where(
                        schema.documents.c.kind == "snapshot", schema.documents.c.scope == "route_policy"
                    )
                )
            transaction.audit("x", "x")


@pytest.fixture
def cluster(tmp_path: Path, database_url: str) -> Iterator[Standing]:
    standing = Standing(tmp_path, database_url)
    yield standing
    standing.database.close()


def refusal(function, *arguments) -> Refused:
    with pytest.raises(Refused) as caught:
        function(*arguments)
    assert caught.value.remedy
    return caught.value


def test_what_heads_have_revoked_goes_into_the_bundle(cluster: Standing) -> None:
    """rules K54, S61: and comes out again for a node that was let in."""
    database, act = cluster.database, {"reason": "test", "actor": "root", "now": NOW}
    with database.change(actor="x", now=NOW) as transaction:
        nodes = {
            "kind": "data",
            "site_id": "default",
            "certificate": b"",
            "certificate_sha256": HASH,
            "incarnation": "i",
        }
        transaction.run(insert(schema.nodes).values(node_id="n1", first_seen=NOW, generation=1, **nodes))
        transaction.audit("x", "x")
    revocation.revoke_node(database, "n1", **act)
    revocation.revoke(database, "service_ids", "mail", unknown=True, **act)
    request = cluster.lead()
    assert {"revokes node_ids n1", "revokes service_ids mail"} <= set(request.changes())
    assert request_builder.rotation(database, SETTINGS, NOW).revocations["node_ids"] == ("n1",)
    revocation.readmit(database, AllowlistEntry("n1", certificate_sha256=HASH), actor="root", now=NOW)
    revocation.restore(database, "service_ids", "mail", actor="root", now=NOW)
    changes = cluster.lead().changes()
    assert "no longer revokes node_ids n1" in changes
    assert not any("mail" in line for line in changes), "it is taken back by a wish alone"


def test_a_key_that_left_is_known(cluster: Standing) -> None:
    """rules P29, of keys: from the whole chain of bundles."""
    old = cluster.made.config_key[0]
    (kept,) = keystore.config_keys(cluster.made.config_key[1].parent, {})
    new = key("drafts")
    until = int(NOW) + 400 * DAY
    cluster.lead(Add(PublicKey(new.algorithm, new.public_key), CONFIG, until))
    cluster.lead(Retire(old, early=True))
    cluster.now += 31 * DAY
    cluster.lead(Remove(old))
    cluster.lead()
    again = Add(PublicKey(kept.algorithm, kept.public_key), CONFIG, until)
    assert "left" in refusal(cluster.request, again).detail


def test_a_key_retires_at_its_date_and_not_before(cluster: Standing) -> None:
    """rules S36: both sign everything first. The refusal has the date, and what to do about a stolen key."""
    old, new = cluster.made.config_key[0], key("successor")
    cluster.lead(Add(PublicKey(new.algorithm, new.public_key), CONFIG, int(NOW) + 400 * DAY))
    (step,) = [each for each in request_builder.rotation(cluster.database, SETTINGS, NOW).keys if each.key_id == old]
    assert step.action == "retire" and step.due > NOW + 5
    for late in (5, step.due - NOW - 1):
        cluster.now = NOW + late
        refused = refusal(cluster.request, Retire(old))
        assert (refused.code, format_time(step.due) in refused.detail) == (Code.CONTRADICTION, True)
        assert "--early" in refused.remedy and "revoke key" in refused.remedy
    assert any("retir" in line for line in cluster.request(Retire(old, early=True)).changes())
    cluster.now = step.due
    cluster.lead(Retire(old))


def test_a_root_key_waits_for_nothing_but_its_successor(cluster: Standing) -> None:
    old, new = cluster.made.root_keys[0][0], key("root successor")
    cluster.lead(Add(PublicKey(new.algorithm, new.public_key), ROOT, int(NOW) + 9_000 * DAY))
    (step,) = [each for each in request_builder.rotation(cluster.database, SETTINGS, NOW).keys if each.key_id == old]
    assert (step.action, step.is_due) == ("retire", True)
    cluster.request(Retire(old))


def test_issue_times_never_go_back(cluster: Standing) -> None:
    """rules K47: what nobody would take yet is not asked for; a recovery neither"""
    cluster.lead()
    cluster.publish(3, 5)
    cluster.now -= 3_600
    assert refusal(cluster.request).code is Code.CLOCK_BEHIND
    recovery = request_builder.recovery_request, cluster.database, "n1", "route_policy", 3, SETTINGS, cluster.now
    assert refusal(*recovery).code is Code.CLOCK_BEHIND


def test_a_raised_epoch_sets_the_time_right(cluster: Standing) -> None:
    """rules K47, A16: as a node's floor, by the date of the bundle that announces the epoch (format.md 7)"""
    cluster.now += 100_000
    cluster.lead()
    cluster.now -= 100_000 - 60
    assert refusal(cluster.request).code is Code.CLOCK_BEHIND
    assert cluster.lead(RaiseEpoch()).envelope.issued_at == int(cluster.now)
    cluster.now += 5
    assert cluster.lead().envelope.issued_at == int(cluster.now)


def test_without_a_bundle_there_is_nothing_to_extend(database: Database) -> None:
    """rules J34"""
    assert refusal(request_builder.bundle_request, database, [], SETTINGS, NOW).code is Code.NO_STATE
    assert refusal(request_builder.rotation, database, SETTINGS, NOW).code is Code.NO_STATE


def test_a_recovery_goes_from_the_last_version_to_an_earlier_one(cluster: Standing) -> None:
    """rules S65, S87"""
    cluster.publish(3, 5, 9)
    found = request_builder.versions(cluster.database, "n1", "route_policy")
    assert [(each.config_version, each.is_kept) for each in found] == [(3, True), (5, True), (9, True)]
    request = request_builder.recovery_request(cluster.database, "n1", "route_policy", 5, SETTINGS, NOW)
    allowed = parse_recovery(request.manifest)
    assert allowed == RecoveryManifest(9, 5, HASH, allowed.nonce)
    again = request_builder.recovery_request(cluster.database, "n1", "route_policy", 5, SETTINGS, NOW)
    assert parse_recovery(again.manifest).nonce != allowed.nonce
    for one in cluster.roots[1:]:
        request = request.with_signature(one)
    trust_import.add_recovery(cluster.database, request.document().to_bytes(), actor="root", now=NOW)


@pytest.mark.parametrize(("to", "code"), [(9, Code.CONFLICT), (10, Code.NOT_FOUND), (4, Code.NOT_FOUND)])
def test_a_recovery_to_what_was_not_there_is_refused(cluster: Standing, to: int, code: Code) -> None:
    cluster.publish(3, 5, 9)
    asked = (cluster.database, "n1", "route_policy", to, SETTINGS, NOW)
    assert refusal(request_builder.recovery_request, *asked).code is code


def test_a_recovery_moves_neither_epochs_nor_lost_documents(cluster: Standing) -> None:
    """rules S65: it is about the version alone."""
    asked = (cluster.database, "n1", "route_policy", 3, SETTINGS, NOW)
    assert refusal(request_builder.recovery_request, *asked).code is Code.NOT_FOUND
    cluster.publish(3, 9, kept=False)
    assert "not kept" in refusal(request_builder.recovery_request, *asked).detail
    cluster.lead(RaiseEpoch())
    assert "epoch" in refusal(request_builder.recovery_request, *asked).detail
    cluster.publish(1, epoch=2)
    assert refusal(request_builder.recovery_request, *asked).code is Code.NOT_FOUND


def test_admission_is_not_needed_for_a_draft(cluster: Standing) -> None:
    """Nothing is changed by asking."""
    before = request_builder.rotation(cluster.database, SETTINGS, NOW)
    cluster.request(RaiseEpoch())
    assert request_builder.rotation(cluster.database, SETTINGS, NOW) == before
    assert admission.allowlist_entries(cluster.database) == []
