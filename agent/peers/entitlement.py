"""Who of the peers may have what: the one decision behind every message (rules J45, K5, S3, S18). Pure.

A node may hold what its own head lists, and nothing else: that the coordinator has signed, and it follows from scopes,
roles, organizations and subject without anybody's telling peers of them. So a peer shows its head (`POST
/v1/standing`), or it lies here already, and is given exactly the documents that are listed there for it.

    inventory, trust bundles   every member of the map: bundles are believed for their signatures, and are everybody's
    a head                     its own; and of neighbours in the same site, for which it may relay
    a document, its manifest   listed in its own head, and for it or shared; or for relaying: listed in the head of such
                               a neighbour, and of organizations alone that it has shown it serves
    a section                  by the content of such a document

Example. `b` and `c` are neighbours of ours in site `ulm`, `d` in `bonn`. `b` serves `acme`. `b` asks for the head of
`c`: it is given it, and with it the shared documents of `acme` that `c` is to have, so that `c` gets them from `b`. It
is not given the ones of `globex`, nor the head of `d`, nor anything that only `d` lists.

An old head entitles to what it lists until a newer one is known here. That shows its node nothing new: a snapshot id
stands for the same bytes for ever, and these were its own.

Rejected:

- By role and organization of the asker: the directory would have to tell every peer of them, and says on purpose
  nothing of anybody's tenants.
- All that is shared to every member: what a node does not serve it must not know.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from snapshot.bundle import SCOPE as TRUST_BUNDLE
from snapshot.envelope import SHARED
from snapshot.manifest import Head


@dataclass(frozen=True)
class MapMember:
    """A node of our map that is not revoked. `digest`: that of its id, by which heads are asked for. `head`: the newest
    that is known here. `organizations`: as far as it has shown which it serves.
    """

    node_id: str
    digest: str
    site: str = ""
    head: Head | None = None
    organizations: frozenset[str] = frozenset()


@dataclass(frozen=True)
class WantedHead:
    digest: str


@dataclass(frozen=True)
class WantedDocument:
    """What its envelope says of it."""

    snapshot_id: str
    scope: str
    subject: str
    content_hash: str
    organizations: frozenset[str] = frozenset()


@dataclass(frozen=True)
class WantedSection:
    """`of`: the documents here that it is in."""

    of: tuple[WantedDocument, ...]


@dataclass(frozen=True)
class ForEveryMember:
    """The inventory, which is made for who asks, and trust bundles."""


Wanted = WantedHead | WantedDocument | WantedSection | ForEveryMember


def may_have(asker: MapMember, wanted: Wanted, neighbours: Sequence[MapMember]) -> bool:
    """`neighbours`: all members of our map; who is not one of them asks for nothing."""
    if asker.node_id not in {member.node_id for member in neighbours}:
        return False
    match wanted:
        case ForEveryMember():
            return True
        case WantedHead(digest):
            return any(member.digest == digest for member in [asker, *near_neighbours(asker, neighbours)])
        case WantedDocument():
            return _may_have_content(asker, wanted, neighbours, by_id=True)
        case WantedSection(of):
            return any(_may_have_content(asker, document, neighbours, by_id=False) for document in of)


def near_neighbours(asker: MapMember, neighbours: Iterable[MapMember]) -> list[MapMember]:
    """For whom it may ask, beside itself. Who has no site is near to nobody."""
    return [other for other in neighbours if other.node_id != asker.node_id and asker.site and other.site == asker.site]


def _may_have_content(
    asker: MapMember, document: WantedDocument, neighbours: Sequence[MapMember], *, by_id: bool
) -> bool:
    if document.scope == TRUST_BUNDLE:
        return False  # it has a message of its own
    if document.subject in (SHARED, asker.node_id) and _lists(asker.head, document, by_id=by_id):
        return True
    return document.organizations <= asker.organizations and any(
        document.subject in (SHARED, other.node_id) and _lists(other.head, document, by_id=by_id)
        for other in near_neighbours(asker, neighbours)
    )


def _lists(head: Head | None, document: WantedDocument, *, by_id: bool) -> bool:
    """To be run, or as coming. A section is asked for by content: what is signed anew has another id and the same."""
    if head is None:
        return False
    listed = [head.scopes.get(document.scope), head.candidates.get(document.scope)]
    return any(
        entry is not None
        and (entry.snapshot_id == document.snapshot_id if by_id else entry.content_hash == document.content_hash)
        for entry in listed
    )
