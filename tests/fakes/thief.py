"""A thief with every key but the roots'. He answers where the coordinator did, and signs what nodes believe.

thief = Thief(server)   remembers what the coordinator had
thief.say(...)          a head of his, above all others
thief.leave()           the coordinator is back as it was before, and knows nothing of what he published
repair(server)          docs/keys.md, "Every key but the roots": two ceremonies, then all is signed anew
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from snapshot.bundle import CONFIG, REVOKED
from snapshot.identifiers import HEAD
from snapshot.manifest import Revocations, ScopeVersion
from tests.fakes.cluster import HOUR, key
from tests.fakes.signed import signed_head

HIGHEST = 2**53 - 1
STOLEN = ("config-1", "config-2")
NEW = "config-3"
MADE_ANEW = ("node_bootstrap", "degraded_mode_policy", "route_policy")


@dataclass
class Thief:
    """`server` is the coordinator's own, whose address and TLS key he has."""

    server: object
    generation: int = HIGHEST - 100_000
    _before: Mapping[str, object] = field(init=False)

    def __post_init__(self) -> None:
        server, cluster = self.server, self.server.cluster
        self._before = {
            "documents": dict(server.documents),
            "head": server.head,
            "published": dict(cluster.published),
            "versions": dict(cluster.versions),
            "states": dict(cluster.states),
            "_generation": server._generation,
        }

    @property
    def cluster(self):
        return self.server.cluster

    def snapshot(self, sections: Mapping[str, object], scope: str, **members: object):
        """Signed by one of the keys that he has, and listed by his next head."""
        return self.server.snapshot(sections, scope, keys=[key(STOLEN[0])], **members)

    def head(self, scopes: Mapping[str, ScopeVersion] | None = None, **members: object):
        """His next one, not given out yet. `poll_after_s` and `revocations` are the manifest's."""
        manifest = {name: members.pop(name) for name in ("poll_after_s", "revocations") if name in members}
        now = int(self.server.now())
        self.generation += 1
        claims = self.cluster._claims(HEAD, {"config_version": self.generation})
        listed = {
            scope: _listing(one) for scope, one in self.cluster.published.items() if scope not in (HEAD, "trust_bundle")
        }
        times = {"issued_at": now, "valid_from": now, "refresh_after": now + HOUR, "expires_at": now + 2 * HOUR}
        made = signed_head(claims, listed if scopes is None else scopes, [key(STOLEN[0])], **manifest)
        return self.cluster.forge(made, keys=[key(STOLEN[0])], **(times | members))

    def say(self, scopes: Mapping[str, ScopeVersion] | None = None, **members: object):
        made = self.head(scopes, **members)
        self.server.say(made)
        return made

    def revoking(self, **names: Sequence[str]) -> Revocations:
        return Revocations(version=HIGHEST, **{name: frozenset(values) for name, values in names.items()})

    def leave(self) -> None:
        """Whatever he has signed is nowhere but on nodes."""
        server, cluster = self.server, self.cluster
        server.documents.clear()
        server.documents.update(self._before["documents"])
        server.head, server._generation = self._before["head"], self._before["_generation"]
        server.spoil, server.hang, server.instead = (lambda _, data: data), "", None
        for name in ("published", "versions", "states"):
            found = getattr(cluster, name)
            found.clear()
            found.update(self._before[name])


def _listing(document) -> ScopeVersion:
    one = document.envelope
    return ScopeVersion(one.authority_epoch, one.config_version, one.state_hash, one.snapshot_id)


def repair(server, stolen: Sequence[str] = STOLEN):
    """The documents, in the order in which they are handed in: two bundles, the head, what it lists."""
    cluster = server.cluster
    for name in stolen:
        cluster.trust(name, status=REVOKED)
    cluster.trust(NEW, purpose=CONFIG)
    first = cluster.trust_bundle()
    cluster.authority_epoch += 1
    second = cluster.trust_bundle()
    server.publish(first, second)
    listed = [scope for scope in cluster.published if scope not in (HEAD, "trust_bundle")]
    documents = [server.snapshot(cluster.states[scope].sections, scope) for scope in listed]
    head = server.announce()
    return [first, second, head, *documents]
