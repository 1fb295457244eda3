"""Documents to measure with: sections of a given size, as routes of a realistic fabric or as long strings."""

import random
import string

from coordinator.keys import signer
from coordinator.keys.signing_key import SigningKey
from snapshot import canonical
from snapshot.bundle import CONFIG, ROOT, parse_keys
from snapshot.container import ChunkParts, Parts
from snapshot.envelope import SNAPSHOT
from snapshot.signature import verify_signature
from snapshot.verifier_state import Roots, VerifierState
from snapshot.verify import Verified, verify

NOW = 1_800_000_000
CLUSTER, NODE = "benchmark", "node-1"
KIB, MIB = 1024, 1024 * 1024


class Cluster:
    """One root key, one config key, their bundle, and a holder that trusts it."""

    def __init__(self):
        root, self.key = SigningKey.generate(), SigningKey.generate()
        life = {"cluster_id": CLUSTER, "not_before": NOW - 10, "not_after": NOW + 10_000_000}
        roots = {root.key_id: signer.key_record(root, purpose=ROOT, **life)}
        keys = roots | {self.key.key_id: signer.key_record(self.key, purpose=CONFIG, **life)}
        sections = signer.trust_bundle_sections(keys, root_threshold=1, config_threshold=1, authority_epoch=1)
        self.bundle_document = signer.snapshot(self.claims("trust_bundle", 1), sections, [root])
        holder = VerifierState(CLUSTER, NODE, roots=Roots(parse_keys(roots), 1))
        bundle = verify(ChunkParts([self.bundle_document.to_bytes()]), holder, kind=SNAPSHOT, now=NOW).bundle
        self.holder = VerifierState(
            CLUSTER, NODE, frozenset({"core_mesh"}), frozenset({"amber", "sable"}), bundle, marks={}, active={}
        )

    def claims(self, scope_type, version, **more):
        return signer.EnvelopeClaims(
            f"{scope_type}-{version}", CLUSTER, scope_type, version, 1, NOW, NOW + 100, NOW + 1_000_000, **more
        )

    def snapshot(self, sections, version=1):
        claims = self.claims("route_policy", version, organization_ids=("amber", "sable"), roles=("core_mesh",))
        return signer.snapshot(claims, sections, [self.key])

    def context(self, bundle):
        """What the holder knows, for `holdfast verify`; `bundle` is the path of the trust bundle."""
        return {
            "cluster_id": CLUSTER,
            "node_id": NODE,
            "roles": ["core_mesh"],
            "organization_ids": ["amber", "sable"],
            "kind": SNAPSHOT,
            "trust_bundle": bundle,
        }

    def verified(self, container) -> Verified:
        """The verdict on the chunks of a container."""
        return verified_anew(ChunkParts(container), self.holder, kind=SNAPSHOT, now=NOW)


def verified_anew(parts: Parts, holder: VerifierState, **how) -> Verified:
    """As by who sees this document for the first time: a process remembers signatures that it has verified."""
    verify_signature.cache_clear()
    return verify(parts, holder, **how)


def pieces(document, size=256 * KIB):
    """The container's bytes as they would come from a file or a connection."""
    whole = document.to_bytes()
    return [whole[start : start + size] for start in range(0, len(whole), size)]


def sections(total, each, make):
    """Sections of about `each` bytes that make up `total`."""
    count = max(1, total // each)
    return {f"routes.{number:05}": make(number, min(each, total)) for number in range(count)}


def routes(number, size):
    """As `route_policy` compiles them: addresses, services, hops, endpoints, a description now and then."""
    rows, length, row = {}, 2, 0
    while True:
        name, value = _route(number * 100_000 + row)
        length += len(canonical.dumps({name: value})) - 1
        if length > size and rows:
            return canonical.dumps(rows)
        rows[name] = value
        row += 1


def _route(i):
    return f"route-{i:08}", {
        "destination": f"10.{i % 256}.{i // 256 % 256}.0/24",
        "enabled": i % 17 != 0,
        "endpoint": f"https://gateway-{i % 900}.fabric.example:8443",
        "next_hops": [f"edge-{i % 7}.site-{i % 3}", f"edge-{i % 5}.site-{i % 3}"],
        "organization_id": ("amber", "sable")[i % 2],
        "ports": [443, 8000 + i % 100],
        "priority": i % 10,
        "protocol": ("tcp", "udp")[i % 5 == 0],
        "qos_class": ("gold", "silver", "bulk")[i % 3],
        "service_id": f"service-{i % 400}",
        "weight": i % 100 / 100,
    } | ({"description": f"branch {i} to the data centre, second line"} if i % 10 == 0 else {})


def prose(number, size):
    """Long strings of words."""
    words = ("gateway", "keeps", "its", "configuration", "when", "the", "link", "is", "gone,", "and", "serves", "on.")
    return _long_strings(number, size, lambda dice, length: " ".join(dice.choices(words, k=length // 6 + 1))[:length])


def base64_text(number, size):
    """Long strings of random base64: certificates, blobs."""
    letters = string.ascii_letters + string.digits + "+/"
    return _long_strings(number, size, lambda dice, length: "".join(dice.choices(letters, k=length)))


def _long_strings(number, size, text):
    dice = random.Random(number)
    step = min(60_000, size - 16)
    strings = [text(dice, step) for _ in range(max(1, size // (step + 4)))]
    return canonical.dumps(strings)
