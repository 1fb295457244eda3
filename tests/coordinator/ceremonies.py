"""A cluster's trust as its operator leads it: bundles one after the other, and nodes that follow them."""

from dataclasses import dataclass, field

from coordinator.keys import signer
from coordinator.keys.signer import EnvelopeClaims, SignedDocument
from coordinator.keys.signing_key import SigningKey
from coordinator.trust import ceremony, signing_requests
from coordinator.trust.bundle_content import Trust
from coordinator.trust.ceremony import CeremonyMoment, PublicKey, Wish
from coordinator.trust.signing_requests import Lifetime, SigningRequest
from snapshot.bundle import CONFIG, ROOT, parse_keys
from snapshot.container import ChunkParts
from snapshot.verifier_state import Mark, Roots, VerifierState
from snapshot.verify import Verified, follow, verify
from tests.fakes.cluster import DAY, NOW, key

CLUSTER = "prod"
ROLLOUT_S = 30 * DAY
LIFETIME_S = 90 * DAY
YEARS = 20 * 365 * DAY


def public(one: SigningKey) -> PublicKey:
    return PublicKey(one.algorithm, one.public_key)


@dataclass
class Ceremonies:
    """Bundles 1..N as containers, and what the last one says. `now` goes on as the test says."""

    roots: int = 3
    threshold: int = 2
    now: int = NOW
    keys: dict[str, SigningKey] = field(default_factory=dict)
    containers: list[bytes] = field(default_factory=list)
    former: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        roots = [self.new_key() for _ in range(self.roots)]
        purposes = {ROOT: roots, CONFIG: [self.new_key()]}
        until = self.now + YEARS
        adds = [ceremony.Add(public(one), purpose, until) for purpose, keys in purposes.items() for one in keys]
        self.trust = ceremony.first_trust(adds, self.threshold, self.moment(first=True))
        life = self.lifetime()
        claims = EnvelopeClaims(
            "bundle-1", CLUSTER, "trust_bundle", 1, 1, life.issued_at, life.refresh_after, life.expires_at
        )
        made = signer.snapshot(claims, self.trust.sections(), roots[: self.threshold])
        self.containers.append(made.to_bytes())

    def new_key(self) -> SigningKey:
        made = key(f"ceremony {len(self.keys)}")
        self.keys[made.key_id] = made
        return made

    def moment(self, *, first: bool = False) -> CeremonyMoment:
        present = None if first else self.trust
        return CeremonyMoment(CLUSTER, self.now, ROLLOUT_S, present, frozenset(self.former))

    def lifetime(self) -> Lifetime:
        return Lifetime(self.now, self.now + LIFETIME_S)

    def request(self, *wishes: Wish) -> SigningRequest:
        following = ceremony.next_trust(self.trust, wishes, self.moment())
        return signing_requests.for_bundle(self.containers[-1], following, self.lifetime())

    def lead(self, *wishes: Wish, order: object = None) -> SigningRequest:
        """The next bundle, signed by no more keys than are needed, taken in `order` (a function that shuffles)."""
        request = self.request(*wishes)
        listed = list(request.envelope.signers)
        if callable(order):
            order(listed)
        for key_id in listed:
            if request.is_complete():
                break
            request = request.with_signature(self.keys[key_id])
        self.accept(request)
        return request

    def accept(self, request: SigningRequest) -> None:
        self.containers.append(request.document().to_bytes())
        after = Trust.of(request.following)
        self.former |= self.trust.keys.keys() - after.keys.keys()
        self.trust = after

    def add(self, purpose: str = CONFIG) -> str:
        made = self.new_key()
        self.lead(ceremony.Add(public(made), purpose, self.now + YEARS))
        return made.key_id

    def of(self, purpose: str) -> list[str]:
        return [name for name, record in self.trust.keys.items() if record.purpose == purpose]

    def config_key(self) -> str:
        (found,) = self.of(CONFIG)
        return found

    # nodes

    def joined(self) -> VerifierState:
        """A node that has taken bundle 1, judged by the pinned roots."""
        first = signing_requests.bundle_of(self.containers[0])
        records = Trust.of(first).sections()["keys"]
        roots = {name: one for name, one in parse_keys(records).items() if one.purpose == ROOT}
        holder = VerifierState(
            CLUSTER, "n1", roles=frozenset({"core_mesh"}), roots=Roots(roots, first.thresholds[ROOT])
        )
        verdict = verify(ChunkParts([self.containers[0]]), holder, kind="snapshot", now=NOW)
        assert isinstance(verdict, Verified)
        return VerifierState(
            CLUSTER, "n1", roles=holder.roles, bundle=verdict.bundle, marks={"trust_bundle": verdict.mark}
        )

    def node_at(self, version: int) -> VerifierState:
        """A node that has followed to this bundle and then went away."""
        holder = self.joined()
        for container in self.containers[1:version]:
            bundle = signing_requests.bundle_of(container)
            mark = Mark(bundle.epoch, bundle.version, _content_hash(container))
            holder = VerifierState(CLUSTER, "n1", roles=holder.roles, bundle=bundle, marks={"trust_bundle": mark})
        return holder

    def followed(self, holder: VerifierState) -> VerifierState:
        """The node after it has walked to the last bundle, by the verifier's own judgement, now."""
        held = holder.bundle.version
        run = [ChunkParts([data]) for data in self.containers[held:]]
        for verdict in follow(run, holder, now=self.now):
            assert isinstance(verdict, Verified), verdict
            marks = {"trust_bundle": verdict.mark}
            holder = VerifierState(CLUSTER, "n1", roles=holder.roles, bundle=verdict.bundle, marks=marks)
        return holder

    def snapshot(self, *key_ids: str, version: int = 1, epoch: int | None = None) -> SignedDocument:
        """A document of a node's scope, signed by these keys."""
        end = self.now + 7 * DAY
        wanted = self.trust.authority_epoch if epoch is None else epoch
        claims = EnvelopeClaims(
            f"r-{version}", CLUSTER, "route_policy", version, wanted, self.now, self.now + DAY, end, "n1"
        )
        return signer.snapshot(claims, {"routes": {}}, [self.keys[name] for name in key_ids])


def _content_hash(container: bytes) -> str:
    return signing_requests.envelope_of(container).content_hash
