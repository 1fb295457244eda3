"""A node has refused what is declared for one of its scopes: what stands, and what it is offered meanwhile. Pure.

    follow(standing, said, listed, now)   a report: the refusal that stands after it, or none
    offer(standing, declared, ...)        a publication: what is declared, or once more what the node has

A refused version never lets what the node holds run into its expiry. A refusal is of a content, and stands until the
node has that content active, or another one is declared, or the scope is no longer for the node. While it stands, what
the node has is published again, under a new version, when its own renewal is due; once the node reports it active, the
declared content is offered again under a new version. So both travel once in each `snapshot_refresh_s`: nothing
expires, and a validator that was mended takes what is declared without anybody's doing. The version line only rises.

Rejected:

- To go on listing the refused version and to sign what the node has again under its old version: `already_applied`
  extends nothing (rules S85), and one version with two expiries is what a thief of a disk would like.
- To list both, as two lines of a head: a node would have to choose, and the coordinator not know which it chose.
- To go back to what the node has until somebody says "again": the declared state would wait for a person for ever.
- To renew whatever a node reports, refused or not: one that is slow, or was offline, would be led back first.
- To offer the refused content as often as heads are made: a validator would run a hundred times a day for one answer.
"""

import enum
from dataclasses import dataclass, replace

from coordinator.reports.checkin import ReportedMark

AGAIN_S = 3_600  # what a node has is not signed again sooner, whatever it says that it has


@dataclass(frozen=True)
class LastRefused:
    """What a node says of the last document of a scope that it has refused."""

    config_version: int
    reason: str
    step: int


@dataclass(frozen=True)
class Said:
    """One report of one scope. `active` was published for this node; None where nothing of the scope is active."""

    active: ReportedMark | None
    refused: LastRefused | None = None
    detail: str = ""


@dataclass(frozen=True)
class KeptRefusal:
    """`refused`: the content that does not get in, under the version in which it was offered last. `since`: the first
    time of this content, Unix seconds. `running`: what the node has instead; `renewed_at`: when that was published last
    for this cause. `withheld`: why it is not renewed, or nothing.
    """

    refused: ReportedMark
    since: float
    reason: str
    step: int
    detail: str = ""
    running: ReportedMark | None = None
    renewed_at: float = 0.0
    withheld: str = ""


class Offer(enum.Enum):
    """What is published for a scope whose last content was refused."""

    OVER = "over"  # another content is declared: the refusal is history
    DECLARED = "declared"
    RUNNING = "running"  # what the node has


def follow(standing: KeptRefusal | None, said: Said, listed: ReportedMark | None, now: float) -> KeptRefusal | None:
    """`listed`: what the node's head lists for the scope."""
    if standing is not None:
        standing = None if _is_taken(standing.refused, said.active) else replace(standing, running=said.active)
    if said.refused is None or listed is None or said.refused.config_version != listed.config_version:
        return standing
    if said.active == listed:
        return standing  # it has taken it since
    if standing is not None and standing.refused.content_hash != listed.content_hash and _is_held(standing, listed):
        words = f"the node refuses that as well: {said.refused.reason} at step {said.refused.step}"
        return replace(standing, withheld=words)
    return _begin(standing, said, said.refused, listed, now)


def offer(standing: KeptRefusal, declared: str, listed: ReportedMark | None, *, is_due: bool) -> Offer:
    """`declared`: the hash of that content. `is_due`: whether what the node has must be signed again, and may be."""
    if declared != standing.refused.content_hash:
        return Offer.OVER
    if standing.running is None:
        return Offer.DECLARED
    is_on_its_way = listed is not None and _is_held(standing, listed) and listed.pair > standing.running.pair
    return Offer.RUNNING if is_due or is_on_its_way else Offer.DECLARED


def _begin(
    standing: KeptRefusal | None, said: Said, refused: LastRefused, listed: ReportedMark, now: float
) -> KeptRefusal:
    """Of the same content it has begun before."""
    new = KeptRefusal(listed, now, refused.reason, refused.step, said.detail, said.active)
    if standing is None or standing.refused.content_hash != listed.content_hash:
        return new
    detail = said.detail or (standing.detail if standing.reason == refused.reason else "")
    kept = replace(new, since=standing.since, renewed_at=standing.renewed_at, withheld=standing.withheld)
    return replace(kept, detail=detail)


def _is_taken(refused: ReportedMark, active: ReportedMark | None) -> bool:
    """A later version of a content that the node had before is the same content; an older one proves nothing."""
    return active is not None and active.content_hash == refused.content_hash and active.pair >= refused.pair


def _is_held(standing: KeptRefusal, listed: ReportedMark) -> bool:
    return standing.running is not None and standing.running.content_hash == listed.content_hash
