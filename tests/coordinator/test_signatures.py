"""Who signed, and how the keys stand in the present bundle."""

import pytest

from coordinator.base.settings import CoordinatorSettings
from coordinator.database.database import Database
from coordinator.keys.signing_key import SigningKey
from coordinator.trust.signatures import signers
from tests.coordinator.candidates import CLUSTER
from tests.coordinator.publishing import Press
from wire.operators.fleet_answers import Signer

YEAR = 365 * 86_400


@pytest.fixture
def press(database: Database) -> Press:
    return Press.published(database, "node-a")


def one(press: Press, key_id: str, scope_type: str = "route_policy") -> Signer:
    with press.database.read() as transaction:
        (found,), _ = signers(transaction, [key_id], scope_type, cluster_id=CLUSTER, now=press.now)
    return found


def test_an_active_key(press: Press) -> None:
    told = one(press, press.bundles.config.key_id)
    assert (told.status, told.purpose, told.fault) == ("active", "config", None)
    assert told.not_before < told.not_after


def test_a_key_that_retires_still_verifies(press: Press) -> None:
    old, press.bundles.config = press.bundles.config, SigningKey.generate()
    keys = (old, press.bundles.config)
    press.add_bundle(keys=keys, statuses={old.key_id: "retiring"})
    told = one(press, old.key_id)
    assert (told.status, told.fault) == ("retiring", None)


def test_a_key_that_was_revoked_or_removed(press: Press) -> None:
    """rules S61"""
    old, press.bundles.config = press.bundles.config, SigningKey.generate()
    press.add_bundle(keys=(old, press.bundles.config), statuses={old.key_id: "revoked"})
    assert (one(press, old.key_id).status, one(press, old.key_id).fault) == ("revoked", "key_revoked")
    press.add_bundle()
    gone = one(press, old.key_id)
    assert gone == Signer(old.key_id, "unknown", "unknown_key")


def test_a_key_whose_time_is_over(press: Press) -> None:
    press.now += YEAR + CoordinatorSettings().snapshot_lifetime_s
    assert one(press, press.bundles.config.key_id).fault == "key_expired"


def test_a_root_key_signs_trust_bundles_alone(press: Press) -> None:
    root = press.bundles.roots[0].key_id
    assert one(press, root, "trust_bundle").fault is None
    assert one(press, root).fault == "key_not_for_scope"


def test_without_a_bundle_no_key_is_known(cluster: Database) -> None:
    with cluster.read() as transaction:
        found, threshold = signers(transaction, ["sha256:" + "ab" * 32], "qos_policy", cluster_id=CLUSTER, now=0.0)
    assert (found[0].status, threshold) == ("unknown", 0)
