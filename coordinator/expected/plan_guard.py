"""Whether a plan changes more than anybody usually means, in numbers (blast_radius.py). Pure.

    guard = PlanGuard(members, limits)
    guard.look(node_id, scope, before, after)    each scope of each node that is told something else
    guard.findings                               what is too much, the worst first; nothing where all is well

Most large outages came from an authentic change that was delivered properly and was wrong: a table that doubled, a
field that nobody had filled in, a script that emptied everything. None of it looks strange in the files. It does in
what nodes would be given, so that is looked at, before anything is signed.

What is found on many nodes alike is one finding. Nothing else of a plan is kept but hashes, and so many small sections
as they were read: the memory is bounded, however many scopes there are. Findings follow from the plan alone: the order
in which scopes come, and how nodes are called, change nothing but whose name stands as an example.

A few nodes that lose something are a decommissioning, and a third of three nodes is one: so it takes MOST_LOSERS of
them and a share of the fleet, before scopes that go are called too much.

A node says what its services can take (`[[service]] limits`), and would refuse what is beyond it. That is said here
already, with the node's name: an operator at a keyboard can do more about it than a node can.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from coordinator.declared.compiler import ScopeContent
from snapshot import blast_radius
from snapshot.blast_radius import ConsumerLimits, Excess, GuardRule, HeldSections, Radius
from snapshot.identifiers import Scope

MOST_LOSERS_PERCENT = 30  # of all nodes, that lose a scope
FEWEST_LOSERS = 3
MOST_TOLD = 5
MOST_PARSED, SMALL_BYTES = 32_768, 2_048  # sections that are kept as they were read, and how large they may be
Limits = Mapping[str, Mapping[str, ConsumerLimits]]
"""By node and scope."""
_NO_LIMITS = ConsumerLimits()


@dataclass(frozen=True)
class GuardFinding:
    """What is too much, the same of so many nodes, of which one is named."""

    scope: str
    excess: Excess
    nodes: int
    example: str
    of_service: bool = False  # beyond what a service there can take, and its node would say no

    @property
    def words(self) -> str:
        more = f" and {self.nodes - 1:,} more" if self.nodes > 1 else ""
        by = " by what a service there says" if self.of_service else ""
        return f"{self.scope} of {self.example}{more}: {self.excess.words}{by}"


Verdict = tuple[tuple[Excess, bool], ...]
"""What is too much of one scope; true for what is beyond the limits of a service."""
_Key = tuple[str, Excess, bool]


@dataclass
class PlanGuard:
    """`members`: how many nodes there are. `limits`: what nodes have said that their services can take."""

    members: int
    limits: Limits = field(default_factory=dict)
    _known: dict[tuple[bytes, bytes, ConsumerLimits], Verdict] = field(default_factory=dict)
    # Entries of peers stand in as many directories as one has of them. None is ever changed.
    _parse: Callable[[bytes], object] = field(default_factory=lambda: lru_cache(maxsize=MOST_PARSED)(json.loads))
    _found: dict[_Key, set[str]] = field(default_factory=dict)  # node ids
    _lost: dict[str, set[str]] = field(default_factory=dict)  # the same by scope

    def look(self, node_id: str, scope: Scope, before: ScopeContent, after: ScopeContent | None) -> None:
        if after is None:
            self._lost.setdefault(scope.name, set()).add(node_id)
            return
        for excess, of_service in self._judge(node_id, scope, before, after):
            self._found.setdefault((scope.name, excess, of_service), set()).add(node_id)

    def _judge(self, node_id: str, scope: Scope, before: ScopeContent, after: ScopeContent) -> Verdict:
        """What many are told alike is judged once."""
        limits = self.limits.get(node_id, {}).get(scope.name, _NO_LIMITS)
        key = before.digest, after.digest, limits
        if key not in self._known:
            radius = blast_radius.compare(scope.type, self._sections(before), self._sections(after))
            self._known[key] = _verdict(radius, limits)
        return self._known[key]

    def _sections(self, content: ScopeContent) -> HeldSections:
        sections = content.sections.items()
        entries = {name: _Inline(data) if isinstance(data, bytes) else data for name, data in sections}
        return HeldSections(entries, content.section, self._read_json)

    def _read_json(self, data: bytes) -> object:
        return self._parse(data) if len(data) <= SMALL_BYTES else json.loads(data)

    @property
    def findings(self) -> list[GuardFinding]:
        """The worst first: the farthest beyond, then on the most nodes."""
        found = [
            GuardFinding(scope, excess, len(node_ids), min(node_ids), of_service)
            for (scope, excess, of_service), node_ids in self._found.items()
        ]
        found += self._losses()
        return sorted(found, key=lambda one: (-one.excess.percent, -one.nodes, one.scope, one.excess.words))

    def _losses(self) -> list[GuardFinding]:
        losers = set().union(*self._lost.values())
        percent = len(losers) * 100 // max(self.members, 1)
        if len(losers) < FEWEST_LOSERS or len(losers) * 100 <= self.members * MOST_LOSERS_PERCENT:
            return []
        found = f"{len(losers):,} of {self.members:,} nodes would lose a scope ({percent} %)"
        excess = Excess(GuardRule.WITHDRAWN, found, f"at most {MOST_LOSERS_PERCENT} % at a time", percent)
        names = blast_radius.name_some(sorted(self._lost))
        return [GuardFinding(names, excess, len(losers), min(losers))]


def _verdict(radius: Radius, limits: ConsumerLimits) -> Verdict:
    usual, beyond = blast_radius.guard(radius), blast_radius.check_limits(radius, limits)
    return (*((excess, False) for excess in usual), *((excess, True) for excess in beyond))


@dataclass(frozen=True)
class _Inline:
    """Bytes that are at hand are compared as they are: hashing those of a fleet costs more than all else here."""

    data: bytes

    @property
    def size(self) -> int:
        return len(self.data)
