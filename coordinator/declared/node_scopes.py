"""The scope types that say what a node itself is, whom it may know and what it may go on doing. Pure."""

from collections.abc import Hashable

from coordinator.declared import peers
from coordinator.declared.kinds import MUTUAL_PULL, Cluster, DegradedModePolicy, PeerPolicy, Resource
from coordinator.declared.model import Model, Subject, most, name_of, policy_of, selects
from coordinator.declared.scope_view import (
    MEMBER,
    ScopeView,
    Sections,
    ValueOrigin,
    encode_certificate,
    encode_pins,
    node_sources,
    split,
    way_of_selection,
)
from coordinator.declared.site_relays import neighbours_of
from snapshot import canonical
from snapshot.identifiers import Scope
from wire.certificate import fingerprint
from wire.operators.fleet_answers import DeclaredSource

AUTHORITIES = "authorities"


class NodeBootstrap(ScopeView):
    """What a node needs to come back: the cluster's endpoints, the CAs of their certificates, and its own entry."""

    TYPE = "node_bootstrap"
    SHOWN = (Cluster,)

    def sections(self, model: Model, subject: Subject, _scope: Scope) -> Sections:
        cluster = model.cluster
        listed = {fingerprint(der): {"certificate": encode_certificate(der)} for der in model.authorities}
        return {
            "cluster": {"cluster_id": model.cluster_id, "coordinators": list(cluster.coordinators) if cluster else []},
            "node": _own_entry(subject),
            **({AUTHORITIES: listed} if listed else {}),
        }

    def concerns(self, _model: Model, _resource: Resource, _subject: Subject) -> bool:
        return True

    def origin(self, model: Model, subject: Subject, _scope: Scope, section: str, entry: str) -> ValueOrigin:
        if section == "node":
            return _from_membership(subject)
        if section == AUTHORITIES:
            return ValueOrigin("a CA that nodes are to believe (holdfastctl coordinators ca status)")
        if entry == "cluster_id":
            return ValueOrigin("the cluster's id, since `init`")
        if model.cluster is None:
            return ValueOrigin("no Cluster is declared")
        return ValueOrigin("where nodes check in", (DeclaredSource(Cluster.KIND, model.cluster.id),))


class NodeRuntime(ScopeView):
    """What a node is to be. Nothing but its own declaration changes it, so no kind is shown to it."""

    TYPE = "node_runtime"
    TELLS_OF_NODE = True

    def sections(self, _model: Model, subject: Subject, _scope: Scope) -> Sections:
        declared = subject.declared
        return {
            "node": {
                **_own_entry(subject),
                "roles": list(subject.roles),
                "organizations": list(subject.organizations),
                "addresses": list(declared.addresses),
                "labels": dict(declared.labels),
            }
        }

    def origin(self, model: Model, subject: Subject, _scope: Scope, _section: str, entry: str) -> ValueOrigin:
        if entry in _own_entry(subject):
            return _from_membership(subject)
        if entry in ("roles", "organizations") and subject.member.kind == "witness":
            return ValueOrigin("a witness has none (rules J27)", (DeclaredSource(MEMBER, subject.node_id),))
        sources = node_sources(model, subject)
        return ValueOrigin("as the Node is declared" if sources else "no such Node is declared (rules J8)", sources)


class PeerDirectory(ScopeView):
    """Whom a node may know. Whose directories a node changes change_impact.py finds: pairs are too many to ask."""

    TYPE = "peer_directory"
    SHOWN = (PeerPolicy,)
    IS_TENANTS = False

    def sections(self, model: Model, subject: Subject, _scope: Scope) -> Sections:
        policy, relays = policy_of(model, subject), peers.shown_relays(model, subject)
        chosen = peers.chosen_peers(model, subject)
        return split("peers", {peer.node_id: _peer(peer, policy, peer.node_id in relays) for peer in chosen})

    def encode_sections(self, model: Model, subject: Subject, _scope: Scope) -> dict[str, bytes]:
        """A member stands in as many directories as one has entries: its entry is written once for a model."""
        policy, relays = policy_of(model, subject), peers.shown_relays(model, subject)
        chosen = peers.chosen_peers(model, subject)
        texts = {peer.node_id: _peer_text(model, peer, policy, peer.node_id in relays) for peer in chosen}
        return {name: canonical.join(part).encode() for name, part in split("peers", texts).items()}

    def is_common(self, _model: Model, _subject: Subject, _scope: Scope) -> bool:
        return True

    def concerns(self, _model: Model, resource: Resource, subject: Subject) -> bool:
        return isinstance(resource, PeerPolicy) and selects(resource.applies_to, subject)

    def origin(self, model: Model, subject: Subject, _scope: Scope, _section: str, entry: str) -> ValueOrigin:
        peer, because = model.subjects[entry], f"one of {self.detail(model, subject)}"
        return ValueOrigin(because, (*node_sources(model, peer), DeclaredSource(MEMBER, entry)))

    def detail(self, model: Model, subject: Subject) -> str:
        policy = policy_of(model, subject)
        by = f"PeerPolicy {policy.id}" if policy else "the default"
        neighbours = len(neighbours_of(model, subject))
        beside = f", and {neighbours} of its site, whose relay it is" if neighbours else ""
        return f"at most {most(policy, subject)} peers by {by}{beside}"


class DegradedMode(ScopeView):
    """What a node may go on doing without a fresh head; without a policy no section, which is as no policy (S58)."""

    TYPE = "degraded_mode_policy"
    SHOWN = (DegradedModePolicy,)

    def sections(self, model: Model, subject: Subject, _scope: Scope) -> Sections:
        policy = degraded_policy(model, subject)
        return {} if policy is None else {"policy": policy_value(policy)}

    def is_common(self, _model: Model, _subject: Subject, _scope: Scope) -> bool:
        return True

    def alike(self, model: Model, subject: Subject, _scope: Scope) -> Hashable:
        policy = degraded_policy(model, subject)
        return subject.roles, None if policy is None else policy.id

    def concerns(self, _model: Model, resource: Resource, subject: Subject) -> bool:
        return isinstance(resource, DegradedModePolicy) and selects(resource.applies_to, subject)

    def origin(self, model: Model, subject: Subject, _scope: Scope, _section: str, _entry: str) -> ValueOrigin:
        policy = degraded_policy(model, subject)
        if policy is None:
            raise AssertionError("without one there is no section")
        chosen = way_of_selection(policy.applies_to, subject)
        how = f"of priority {policy.priority}, the first that applies: it selects {chosen}"
        return ValueOrigin(how, (DeclaredSource(DegradedModePolicy.KIND, policy.id),))

    def detail(self, model: Model, subject: Subject) -> str:
        policy = degraded_policy(model, subject)
        return f"DegradedModePolicy {policy.id} applies" if policy else "no policy applies"


def degraded_policy(model: Model, subject: Subject) -> DegradedModePolicy | None:
    """The first that applies to the member."""
    return next((policy for policy in model.degraded_policies if selects(policy.applies_to, subject)), None)


def policy_value(policy: DegradedModePolicy) -> dict[str, object]:
    """As the node reads it."""
    return {
        "allow": list(policy.allow),
        "max_duration_s": policy.max_duration_s,
        "route_ttl_s": policy.route_ttl_s,
        "session_ttl_s": policy.session_ttl_s,
        "allow_unconfirmed_start": policy.allow_unconfirmed_start,
    }


def _own_entry(subject: Subject) -> dict[str, object]:
    """As the node was admitted."""
    return {"node_id": subject.node_id, "kind": subject.member.kind, "site_id": subject.member.site_id}


def _from_membership(subject: Subject) -> ValueOrigin:
    return ValueOrigin("its entry, as it was admitted", (DeclaredSource(MEMBER, subject.node_id),))


def _peer(peer: Subject, policy: PeerPolicy | None, is_relay: bool) -> dict[str, object]:
    """What is needed to reach and to recognise a peer: nothing of its roles, tenants or labels; and who fetches, where
    that is said (rules K6, K7). A reader from before passes over these members. `is_relay`: for whose directory it is.
    """
    return {
        "site_id": peer.member.site_id,
        "addresses": list(peer.declared.addresses),
        "url": peer.member.direct_url,
        "certificates": encode_pins(peer.member),
        **({"relay": True} if is_relay else {}),
        **_flow(policy),
    }


def _peer_text(model: Model, peer: Subject, policy: PeerPolicy | None, is_relay: bool) -> str:
    key = (peer.node_id, name_of(policy), is_relay)
    if key not in model.peer_texts:
        model.peer_texts[key] = canonical.dumps(_peer(peer, policy, is_relay)).decode()
    return model.peer_texts[key]


def _flow(policy: PeerPolicy | None) -> dict[str, object]:
    """Nothing where the policy says nothing: both fetch."""
    if policy is None:
        return {}
    flow: dict[str, object] = {} if policy.fetch == MUTUAL_PULL else {"type": policy.fetch}
    return flow if not policy.automatic_refresh else flow | {"automatic_refresh": policy.automatic_refresh == "yes"}
