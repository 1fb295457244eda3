"""Whether what a node has may still be signed for it, and for whom. Pure, but for reading sections.

    audience(held, holder)   the roles and organizations of a document signed again
    reason(held, holder)     why it is not signed again, or nothing

What was right when it was published may name today what was revoked, or what the node may not know any more. No refusal
of something newer brings that back: it is not renewed, and expires.
"""

import json
from collections.abc import Iterator

from coordinator.declared.compiler import Audience
from coordinator.declared.config_scope import CONFIG
from coordinator.publishing.published_state import PublishedDocument
from snapshot.egress import RESOURCES
from snapshot.manifest import Revocations
from snapshot.roles import ESTABLISHING, EVERY_NODE, ROLES
from snapshot.verifier_state import VerifierState

# The members of entries that name what can be revoked: format.md 9, 10.
_SERVICE, _SERVICES, _URL, _URLS = "service_id", "service_ids", "url", "coordinators"


def audience(held: PublishedDocument, holder: VerifierState) -> Audience:
    """Never more than it was made for."""
    one = held.envelope
    if one.scope_type in ESTABLISHING:
        return Audience(one.roles, one.organization_ids)
    return Audience(tuple(role for role in one.roles if _grants(role, held, holder)), one.organization_ids)


def reason(held: PublishedDocument, holder: VerifierState) -> str:
    """Why a document may not be signed again for this holder, for people; empty where it may."""
    one = held.envelope
    gone = sorted(set(one.organization_ids) - holder.organization_ids)
    if gone:
        return f"it is about {', '.join(gone)}, which the node serves no more"
    if one.scope_type in ESTABLISHING:
        if set(one.roles) != holder.roles or set(one.organization_ids) != holder.organization_ids:
            return "it says of the node what is declared otherwise now"
    elif one.scope_type not in EVERY_NODE and not any(_grants(role, held, holder) for role in one.roles):
        return "the node has none of the roles any more that granted it"
    named = sorted(set(_revoked_names(held, holder)))
    return f"it names what was revoked: {', '.join(named)}" if named else ""


def _grants(role: str, held: PublishedDocument, holder: VerifierState) -> bool:
    is_taken = f"{holder.node_id}/{role}" in _all_revocations(holder).role_assignments
    may_hold = held.envelope.scope_type in EVERY_NODE or held.envelope.scope_type in ROLES.get(role, ())
    return role in holder.roles and not is_taken and may_hold


def _revoked_names(held: PublishedDocument, holder: VerifierState) -> Iterator[str]:
    told = _all_revocations(holder)
    if held.envelope.scope_type == CONFIG or not (told.service_ids or told.node_ids or told.endpoints):
        return  # files are another program's: an id in them names nothing of ours
    yield from told.service_ids & set(held.envelope.scope_ids)
    for name in held.sections:
        value = json.loads(held.read(name))  # its hash was looked at
        entries = value if isinstance(value, dict) else {}
        if name.startswith("services") or name == RESOURCES:
            yield from told.service_ids & entries.keys()
        elif name.startswith("peers"):
            yield from told.node_ids & entries.keys()
        yield from _names(value, told)


def _names(value: object, told: Revocations) -> Iterator[str]:
    """By members at any depth; what a service's settings mean by such a member may be of any form."""
    if isinstance(value, dict):
        of = {_SERVICE: told.service_ids, _SERVICES: told.service_ids, _URL: told.endpoints, _URLS: told.endpoints}
        for name, inner in value.items():
            said = inner if isinstance(inner, list) and name in (_SERVICES, _URLS) else [inner]
            yield from (entry for entry in said if isinstance(entry, str) and entry in of.get(name, ()))
            yield from _names(inner, told)
    elif isinstance(value, list):
        for inner in value:
            yield from _names(inner, told)


def _all_revocations(holder: VerifierState) -> Revocations:
    """By heads and by the bundle."""
    by_bundle = holder.bundle.revocations if holder.bundle else Revocations()
    told = holder.revocations
    return Revocations(
        node_ids=told.node_ids | by_bundle.node_ids,
        role_assignments=told.role_assignments | by_bundle.role_assignments,
        service_ids=told.service_ids | by_bundle.service_ids,
        endpoints=told.endpoints | by_bundle.endpoints,
    )
