"""The coordinator's machine in other hands: docs/keys.md, "Every key but the roots", by the shipped programs."""

import time

from coordinator.keys import keystore, signer
from snapshot.bundle import CONFIG
from snapshot.identifiers import HEAD
from snapshot.manifest import Revocations
from tests.fakes.signed import signed_head
from tests.fakes.thief import HIGHEST
from tests.holdfast.operator_lab import Lab
from tests.journeys.gateway import Gateway, declare


def his_head(lab: Lab) -> bytes:
    """By the key that lies on the machine: nothing is listed, the node is revoked, and no number is left above."""
    (file,) = keystore.files(lab.keys, CONFIG)
    now = int(time.time())
    claims = signer.EnvelopeClaims(
        "his", "prod", HEAD, HIGHEST, 1, now, now + 600, now + 1200, subject_node_id="gateway"
    )
    revocations = Revocations(version=HIGHEST, node_ids=frozenset({"gateway"}))
    return signed_head(claims, {}, [keystore.load(file)], poll_after_s=HIGHEST, revocations=revocations).to_bytes()


def test_the_documented_repair_ends_what_he_has_signed(lab: Lab, gateway: Gateway):
    """rules A9, K41, S44; threats T16: killed and restarted in between; the node is not touched"""
    declare(lab, 8081)
    gateway.join(8081)
    file = gateway.folder / "his.hfs"
    file.write_bytes(his_head(lab))
    assert gateway.ask("import", str(file)).status == 0
    gateway.until(lambda: gateway.status["state"] == "revoked" and gateway.port() == 0)
    gateway.kill()

    reason = ("--reason", "machine stolen", "--new-key-to", "--root-key", lab.roots, "--yes")
    lab.good("revoke", "key", lab.config_key(), *reason)
    lab.reload()
    gateway.start()
    lab.good("epoch", "raise", "--root-key", lab.roots, "--yes")
    gateway.until(lambda: gateway.status["state"] == "active" and gateway.port() == 8081, hinted=True)
    status = gateway.status
    assert (status["trust_bundle_version"], status["head"]["authority_epoch"]) == (3, 2)
    declare(lab, 8082)
    gateway.until(lambda: gateway.port() == 8082, hinted=True)
