"""What root keys have signed elsewhere: judged as a node would judge it, then kept and passed on."""

import pytest

from coordinator.base.refusal import Code, Refused
from coordinator.database import documents
from coordinator.database.database import Database
from coordinator.keys import signer
from coordinator.keys.signer import EnvelopeClaims
from coordinator.keys.signing_key import SigningKey
from coordinator.trust import trust_import
from snapshot.manifest import RecoveryManifest
from tests.coordinator import candidates
from tests.coordinator.candidates import CLUSTER, contents
from tests.coordinator.publishing import Press

KEPT = ("documents", "trust_bundles", "recoveries", "cluster", "nodes")
GOOD = "kind: Route\nid: front\nspec: {organization: acme, service: web, match: {hosts: [www.example]}}"
BAD = GOOD.replace("www.example", "wrong.example")


@pytest.fixture
def press(database: Database) -> Press:
    return Press.published(database, "node-a")


def refused(press: Press, add, data: bytes) -> Refused:
    """Nothing remains of it."""
    before = contents(press.database, *KEPT)
    with pytest.raises(Refused) as found:
        add(press.database, data, actor="root", now=press.now)
    assert contents(press.database, *KEPT) == before
    return found.value


def recovery(press: Press, scope: str, to: int, nonce: str = "nonce-1", keys: tuple = (), **claims: object) -> bytes:
    """Permission to go back from what is listed now to version `to`."""
    entry = press.listing()[scope]
    with press.database.read() as transaction:
        from sqlalchemy import select

        from coordinator.database import schema

        table = schema.published
        chosen = select(table.c.content_hash).where(table.c.scope == scope, table.c.config_version == to)
        content_hash = transaction.row(chosen).content_hash
    given = {
        "snapshot_id": f"recovery-{nonce}",
        "cluster_id": CLUSTER,
        "scope_type": scope,
        "subject_node_id": "node-a",
        "config_version": 1,
        "authority_epoch": entry.authority_epoch,
        "issued_at": int(press.now),
        "refresh_after": int(press.now) + 60,
        "expires_at": int(press.now) + 86_400,
    }
    allowed = RecoveryManifest(entry.config_version, to, content_hash, nonce)
    return signer.recovery(EnvelopeClaims(**{**given, **claims}), allowed, keys or press.bundles.roots).to_bytes()


# ---- trust bundles


def test_the_next_bundle_is_taken_and_told_to_everybody(press: Press) -> None:
    """rules S35, K54"""
    assert press.due() == []
    press.add_bundle()
    assert press.due() == ["node-a"]
    press.publish()
    assert press.listing()["trust_bundle"].config_version == 2
    assert press.reader().follow().holder.bundle.version == 2


def test_a_bundle_that_root_keys_did_not_sign_is_refused(press: Press) -> None:
    """rules S41, S45: with one signature, with a config key's, with strangers'."""
    for roots in (press.bundles.roots[:1], (press.bundles.config,), (SigningKey.generate(), SigningKey.generate())):
        data = press.bundles.next(roots=roots)
        press.bundles.version -= 1
        assert refused(press, trust_import.add_trust_bundle, data).code is Code.CONFLICT
    press.add_bundle()


@pytest.mark.parametrize(
    "claims", [{"config_version": 3}, {"config_version": 1}, {"cluster_id": "other"}, {"expires_at": 1_700_000_000}]
)
def test_a_bundle_that_does_not_follow_is_refused(press: Press, claims: dict) -> None:
    """rules S73, S76"""
    if "expires_at" in claims:
        claims |= {"issued_at": 1_600_000_000, "refresh_after": 1_600_000_001}
    data = press.bundles.next(**claims)
    assert refused(press, trust_import.add_trust_bundle, data).code in (Code.CONFLICT, Code.BAD_REQUEST)
    press.bundles.version -= 1
    press.add_bundle()


def test_a_first_bundle_must_meet_its_own_threshold(database: Database) -> None:
    candidates.found(database)
    press = Press(database)
    assert (
        refused(press, trust_import.add_trust_bundle, press.bundles.next(roots=press.bundles.roots[:1])).code
        is Code.CONFLICT
    )


def test_what_is_no_bundle_is_refused(press: Press) -> None:
    assert refused(press, trust_import.add_trust_bundle, b"\x94nonsense").code is Code.CONFLICT
    other = press.document("node_runtime")
    from coordinator.publishing.publisher import container_of

    assert refused(press, trust_import.add_trust_bundle, container_of(other)).code in (Code.CONFLICT, Code.BAD_REQUEST)


# ---- recoveries


def given_up(press: Press) -> int:
    """GOOD was published, then BAD; the version to go back to."""
    press.apply(GOOD)
    press.publish()
    good = press.listing()["route_policy"].config_version
    press.apply(BAD)
    press.publish()
    return good


def test_a_recovery_takes_the_node_back_once(press: Press) -> None:
    """rules S31, S87, S86: the target is listed again under its old version, signed anew, and the node takes it."""
    good = given_up(press)
    reader = press.reader().follow()
    assert b"wrong.example" in reader.text("route_policy")
    bad = press.listing()["route_policy"].config_version
    trust_import.add_recovery(press.database, recovery(press, "route_policy", good), actor="root", now=press.now)
    assert press.due() == ["node-a"]
    press.publish()
    assert press.listing()["route_policy"].config_version == good
    reader.follow()
    assert b"www.example" in reader.text("route_policy")
    assert reader.holder.marks["route_policy"].config_version == bad  # what was given up does not return
    press.apply(GOOD.replace("www.example", "next.example"))
    press.publish()
    assert press.listing()["route_policy"].config_version == bad + 1
    reader.follow()
    assert b"next.example" in reader.text("route_policy")


def test_without_a_recovery_nothing_goes_back(press: Press) -> None:
    """rules S76: what was declared before comes as a new version."""
    good = given_up(press)
    press.apply(GOOD)
    press.publish()
    assert press.listing()["route_policy"].config_version == good + 2


def test_a_recovery_that_roots_did_not_sign_or_whose_nonce_was_used_is_refused(press: Press) -> None:
    """rules S65, S87"""
    good = given_up(press)
    unsigned = recovery(press, "route_policy", good, keys=(press.bundles.config,))
    assert refused(press, trust_import.add_recovery, unsigned).code is Code.CONFLICT
    elsewhere = recovery(press, "route_policy", good, cluster_id="other")
    assert refused(press, trust_import.add_recovery, elsewhere).code is Code.CONFLICT
    data = recovery(press, "route_policy", good)
    trust_import.add_recovery(press.database, data, actor="root", now=press.now)
    again = recovery(press, "route_policy", good, snapshot_id="recovery-again")
    assert refused(press, trust_import.add_recovery, again).code is Code.CONFLICT
    assert documents.recovery(press.database, "node-a", "route_policy").snapshot_id == "recovery-nonce-1"
