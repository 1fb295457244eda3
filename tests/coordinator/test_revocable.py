"""Only what there is is revoked, unless the operator says that it is meant (rules K54, S61)."""

import pytest

from coordinator.base.refusal import Code, Refused
from coordinator.database import revocations
from coordinator.database.database import Database
from coordinator.membership import revocation
from coordinator.publishing import declarations
from coordinator.trust import trust_import
from tests.coordinator.bundles import Bundles
from tests.coordinator.candidates import NOW, admit, contents

HOW = {"reason": "test", "actor": "root", "now": NOW}
STATE = """
{kind: Cluster, id: prod, spec: {coordinators: ["https://coord-2.example:7443"]}}
---
{kind: Organization, id: acme}
---
{kind: Node, id: gw-1, spec: {roles: [egress_service, ingress], organizations: [acme]}}
---
{kind: Service, id: web, spec: {organization: acme, runs_on: {nodes: [gw-1]}}}
---
{kind: StorageEndpoint, id: store, spec: {url: "https://store.example:443"}}
"""
SLIPS = [
    ("service_ids", "wbe", "web"),
    ("role_assignments", "gw-1/core_mesh", "gw-1/ingress"),
    ("role_assignments", "nosuch/ingress", "gw-1/ingress"),
    ("endpoints", "https://store.example:444", "https://store.example:443"),
    ("key_ids", "sha256:" + "0" * 64, "sha256:"),
]


@pytest.fixture
def declared(cluster: Database) -> Database:
    declarations.apply(cluster, {"state.yaml": STATE}, actor="root", now=NOW)
    trust_import.add_trust_bundle(cluster, Bundles(NOW).next(), actor="root", now=NOW)
    return cluster


def refusal(database: Database, *what: str, **how: object) -> Refused:
    before = contents(database, "revocations", "cluster", "audit")
    with pytest.raises(Refused) as caught:
        revocation.revoke(database, *what, **HOW, **how)
    assert contents(database, "revocations", "cluster", "audit") == before
    return caught.value


@pytest.mark.parametrize(("category", "value", "there"), SLIPS)
def test_a_slip_of_the_pen_is_no_revocation(declared: Database, category: str, value: str, there: str) -> None:
    """rules K54: what was refused with what there is can be revoked all the same by saying so."""
    refused = refusal(declared, category, value)
    assert refused.code is Code.NOT_FOUND
    assert there in refused.remedy and "--unknown" in refused.remedy
    revocation.revoke(declared, category, value, unknown=True, **HOW)
    with declared.read() as transaction:
        assert revocations.manifest(transaction)[category] == [value]
    assert refusal(declared, category, value).code is Code.REVOKED


def test_a_word_that_is_no_role_is_never_revoked(declared: Database) -> None:
    for unknown in (False, True):
        refused = refusal(declared, "role_assignments", "gw-1/banana", unknown=unknown)
        assert refused.code is Code.BAD_REQUEST
        assert "ingress" in refused.remedy


@pytest.mark.parametrize(
    ("category", "value"),
    [
        ("service_ids", "web"),
        ("role_assignments", "gw-1/ingress"),
        ("endpoints", "https://store.example:443"),
        ("endpoints", "https://coord.example:7443"),
        ("endpoints", "https://coord-2.example:7443"),
        ("endpoints", "https://gw-1.example:7443"),
    ],
)
def test_what_there_is_needs_no_further_word(declared: Database, category: str, value: str) -> None:
    """rules S60, S61"""
    admit(declared, "gw-1", direct_url="https://gw-1.example:7443")
    revocation.revoke(declared, category, value, **HOW)


def test_a_key_of_the_bundle_is_known(cluster: Database) -> None:
    bundles = Bundles(NOW)
    trust_import.add_trust_bundle(cluster, bundles.next(), actor="root", now=NOW)
    revocation.revoke(cluster, "key_ids", bundles.config.key_id, **HOW)


def test_a_long_list_of_names_is_cut_short(cluster: Database) -> None:
    text = "---\n".join(f"{{kind: Node, id: n{number:02}, spec: {{roles: [thin]}}}}\n" for number in range(20))
    declarations.apply(cluster, {"state.yaml": text}, actor="root", now=NOW)
    assert "n07/thin and 12 more;" in refusal(cluster, "role_assignments", "x/thin").remedy
