"""A check-in of a member: who it is, whether one of us was restored from an old backup. Pure.

rules K30, K33, K36, K37, K41
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from coordinator.base.refusal import Code, Refused
from coordinator.database.member import Member, is_same_pin

Pair = tuple[int, int]  # (authority_epoch, version or generation)
FIRST: Pair = (0, 0)


class Comparison(enum.Enum):
    """A node's mark against what this database has on record for it (rules K41)."""

    EQUAL = "equal"
    NODE_BEHIND = "node_behind"
    NODE_AHEAD = "node_ahead"
    RESTORED_BACKUP = "restored_backup"
    CONFLICT = "conflict"


class ReportedMark(NamedTuple):
    """One scope's `(authority_epoch, config_version)` and content hash."""

    authority_epoch: int
    config_version: int
    content_hash: str = ""

    @property
    def pair(self) -> Pair:
        return (self.authority_epoch, self.config_version)


@dataclass(frozen=True)
class PublishedHead:
    authority_epoch: int
    generation: int
    refresh_after: int

    @property
    def pair(self) -> Pair:
        return (self.authority_epoch, self.generation)


def judge(claim: tuple[str, str], pin: str | None, *, cluster_id: str, member: Member | None) -> None:
    """Whether `claim` (cluster id, node id) over a connection known by `pin` is this member (rules K33, K36).

    `member`: what is kept under the claimed node id. The order is proof, cluster, revoked, entry, certificate;
    Refused with the first that fails.
    """
    claimed_cluster, node_id = claim
    if pin is None:
        raise Refused(Code.BAD_PROOF, "no client certificate was shown")
    if claimed_cluster != cluster_id:
        raise Refused(Code.WRONG_CLUSTER, f"{node_id} claims {claimed_cluster}, this is {cluster_id}")
    if member is not None and member.revoked:
        raise Refused(Code.REVOKED, f"{node_id} was revoked")
    if member is None:
        raise Refused(Code.REMOVED, f"{node_id} is no member")
    if not any(is_same_pin(pin, known) for known in member.pins):
        raise Refused(Code.IDENTITY_CONFLICT, f"{node_id} is a member with another certificate")


def compare(record: ReportedMark | None, reported: ReportedMark | None, *, proven: bool = False) -> Comparison:
    """`proven`: the node has shown a document of that mark which our keys signed (rules K41)."""
    ours = FIRST if record is None else record.pair
    theirs = FIRST if reported is None else reported.pair
    if theirs < ours:
        return Comparison.NODE_BEHIND
    if theirs > ours:
        return Comparison.RESTORED_BACKUP if proven else Comparison.NODE_AHEAD
    if record is not None and reported is not None and not is_same_pin(record.content_hash, reported.content_hash):
        return Comparison.CONFLICT
    return Comparison.EQUAL


def compare_all(records: Mapping[str, ReportedMark], reported: Mapping[str, ReportedMark]) -> dict[str, Comparison]:
    """Scope by scope; those that are equal are left out."""
    if records == reported:  # nearly every report
        return {}
    scopes = sorted(records.keys() | reported.keys())
    compared = {scope: compare(records.get(scope), reported.get(scope)) for scope in scopes}
    return {scope: comparison for scope, comparison in compared.items() if comparison is not Comparison.EQUAL}
