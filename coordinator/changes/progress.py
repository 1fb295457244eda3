"""What comes next for a change, from how far each of its nodes is: every rule of a rollout, and no act. Pure.

    decide(change, nodes)    -> NextMoves: who is asked, who gets it, what it comes to, or what is waited for

A group of nodes (those of one policy) goes through these phases, each step of which is one look:

    pending -> voting -> ready -> baking -> ready ... -> passed          prepare: all
    pending -> voting -> ready -> baking -> pending ... -> passed        prepare: ring
    pending -> baking -> ready ... -> passed                             prepare: none, or pending -> ready -> ...

and the change is `preparing` until every group is ready, `rolling` until every group has passed, then `done`.

The rules:

1. Who is asked is everybody that is offered the change and can judge it; who is reachable and has not answered in
   `PREPARE_S` counts as one that did not accept. Who is offline is left out. Too few that accept: halted, and no node
   of that vote was changed.
2. A ring is let go once the one before has passed: all its nodes run the content, have run it for `bake_s`, and say
   so. A node that refuses, goes back by itself, or is not heard of with the content in `ACTIVATE_S` has failed, also
   where it is not heard of at all: a change that kills its nodes must not look like nodes that are switched off.
3. A ring that can no longer reach its share has failed at once: nobody waits for the bake. Earlier rings are looked at
   for as long as the change is open, since some damage comes late.
4. Who has failed within the tolerance is left aside: it is given nothing before the change is done, and is counted no
   more. A resumed change goes on the same way: what failed before a person said so is aside. Whoever is aside is
   offered it again, and may say yes now; where all are aside, and none does, it halts.
5. Where it halts, nothing is offered any more, and nothing given; who has it keeps it.
6. A node that an earlier change keeps back in one of the same scopes is not asked, and not done without: it is waited
   for, unless it is offline.
7. Offline nodes hold nothing up: they are given the change when it is done. But while nobody at all is reachable, or
   before it is known who is, nothing goes on: then it is us who are cut off. What takes a change back does: it leads to
   where all have been, and must not wait for ever, and all that comes later with it, for a node that its change killed.

No clock is read here: how long something has lasted is told by who has watched it (coordinator/rollout/watch.py), so a
clock that leaps is nobody's bake.

Rejected: a vote that passes by majority of all nodes, which nobody reaches in a fleet that is half switched off; and
counting who is offline as failed, which would leave one dead machine to halt every change.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from coordinator.changes.groups import ChangeGroup
from coordinator.changes.rings import NextRing, RingPlace, next_ring
from coordinator.changes.rollout_policy import Rollout
from coordinator.changes.states import FAILED, ChangeState, GroupPhase, Outcome, Presence, Step, Verdict
from coordinator.declared.kinds import ON_FAILURE_REVERT, PREPARE_ALL, PREPARE_NONE, PREPARE_RING

PREPARE_S = 120.0  # for a vote
NOW_S = 5.0  # for one that nobody waits for
ACTIVATE_S = 120.0  # from the head that says so to the report that says so
NAMED = 5  # nodes in a sentence
_IN_ORDER = list(GroupPhase)


@dataclass(frozen=True)
class NodeProgress:
    """One node of one change. Times in seconds since it was so; None: it is not so."""

    node_id: str
    group: int = 0
    step: Step = Step.HELD
    ring: int | None = None  # the one in which it got the change; None of one that is left aside, too
    outcome: Outcome = Outcome.NONE
    presence: Presence = Presence.REACHABLE
    can_vote: bool = True
    verdict: Verdict = Verdict.NONE  # on what its head lists now
    told_s: float | None = None  # its head says what this step is
    active_s: float | None = None
    proves: bool = False  # its agent asks its services, and reports the content good or taken back
    is_telling: bool = True  # rings.py
    cohorts: frozenset[int] = frozenset()
    is_behind: bool = False  # an earlier change keeps one of the same scopes from it still (order.py)
    words: str = ""  # why it refused or went back


@dataclass(frozen=True)
class ChangeProgress:
    """`is_immediate`: applied with `--now`. `is_waiting`: for an earlier change to the same scopes. `takes_back`: what
    another one has changed.
    """

    change_id: int
    state: ChangeState
    groups: tuple[ChangeGroup, ...]
    is_immediate: bool = False
    is_waiting: bool = False
    takes_back: bool = False


@dataclass(frozen=True)
class Move:
    """What one group does. `outcomes`: of nodes that have failed with this look."""

    group: int
    phase: GroupPhase
    ring: int
    offer: tuple[str, ...] = ()
    release: tuple[str, ...] = ()
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)


@dataclass(frozen=True)
class NextMoves:
    """`state`: what the change becomes, if anything, and why. `waits`: by group, what is waited for. `due_s`: the
    seconds until a bake is over, and there is something to look at though nobody says anything.
    """

    moves: tuple[Move, ...] = ()
    state: ChangeState | None = None
    why: str = ""
    waits: Mapping[int, str] = field(default_factory=dict)
    due_s: float = math.inf


@dataclass(frozen=True)
class _Look:
    """One group as it is looked at."""

    change: ChangeProgress
    index: int
    nodes: Sequence[NodeProgress]

    @property
    def group(self) -> ChangeGroup:
        return self.change.groups[self.index]

    @property
    def rollout(self) -> Rollout:
        return self.group.rollout

    @property
    def vote_s(self) -> float:
        return NOW_S if self.change.is_immediate else PREPARE_S

    @property
    def is_anybody_there(self) -> bool:
        return any(node.presence is Presence.REACHABLE for node in self.nodes)

    @property
    def may_go_on(self) -> bool:
        """Somebody is there, or nobody is waited for."""
        are_gone = all(node.presence is Presence.OFFLINE for node in self.nodes)
        return self.is_anybody_there or (self.change.takes_back and are_gone)

    @property
    def is_ready(self) -> bool:
        """Of a group of which nobody is asked from the start."""
        is_unasked = self.group.phase is GroupPhase.PENDING and self.rollout.prepare == PREPARE_NONE
        return is_unasked or self.group.phase in (GroupPhase.READY, GroupPhase.PASSED)

    @property
    def has_released(self) -> bool:
        return any(node.step is Step.RELEASED for node in self.nodes)

    def turn(self, phase: GroupPhase, failed: Mapping[str, Outcome] | None = None) -> "_Said":
        return _Said(Move(self.index, phase, self.group.ring, outcomes=failed or {}))


@dataclass(frozen=True)
class _Said:
    """What a group comes to with one look: a move, a failure, something to wait for."""

    move: Move | None = None
    failure: str = ""
    waits: str = ""
    due_s: float = math.inf


@dataclass(frozen=True)
class _Tally:
    """Of those that are counted: `waiting` may yet come out well."""

    good: Sequence[NodeProgress]
    failed: Mapping[str, Outcome]
    waiting: Sequence[NodeProgress]

    def has_failed(self, success_percent: int) -> bool:
        """Whether its share cannot be reached any more."""
        best = len(self.good) + len(self.waiting)
        return bool(self.failed) and 100 * best < success_percent * (best + len(self.failed))


def decide(change: ChangeProgress, nodes: Sequence[NodeProgress]) -> NextMoves:
    """Nothing for a change that waits for a person or another change, or is over."""
    if change.state not in (ChangeState.PREPARING, ChangeState.ROLLING) or change.is_waiting:
        return NextMoves()
    looks = [
        _Look(change, index, [node for node in nodes if node.group == index]) for index in range(len(change.groups))
    ]
    may_release = change.state is ChangeState.ROLLING or all(look.is_ready for look in looks)
    said = {look.index: _look_at(look, may_release=may_release) for look in looks}
    failed = next((look for look in looks if said[look.index].failure), None)
    if failed is not None:
        return _fail(failed, nodes, said)
    moves = tuple(found.move for found in said.values() if found.move is not None)
    waits = {index: found.waits for index, found in said.items() if found.waits}
    due_s = min((found.due_s for found in said.values()), default=math.inf)
    return NextMoves(moves, _after(change, moves), waits=waits, due_s=due_s)


def _fail(look: _Look, nodes: Sequence[NodeProgress], said: Mapping[int, _Said]) -> NextMoves:
    """Nobody is given anything any more, of no group; who has failed is known from now on."""
    stand = {move.group: move for move in (found.move for found in said.values()) if move is not None}
    groups = look.change.groups
    moves = tuple(
        Move(index, groups[index].phase, groups[index].ring, outcomes=move.outcomes)
        for index, move in stand.items()
        if move.outcomes
    )
    is_out = any(node.step is Step.RELEASED for node in nodes)
    reverts = is_out and look.rollout.on_failure == ON_FAILURE_REVERT
    return NextMoves(moves, ChangeState.REVERTING if reverts else ChangeState.HALTED, said[look.index].failure)


def _after(change: ChangeProgress, moves: Sequence[Move]) -> ChangeState | None:
    phases = {index: group.phase for index, group in enumerate(change.groups)}
    phases |= {move.group: move.phase for move in moves}
    if all(phase is GroupPhase.PASSED for phase in phases.values()):
        return ChangeState.DONE
    is_out = any(move.release for move in moves)
    return ChangeState.ROLLING if is_out and change.state is ChangeState.PREPARING else None


def _look_at(look: _Look, *, may_release: bool) -> _Said:
    phase = look.group.phase
    if not look.nodes and phase is not GroupPhase.PASSED:  # whoever was in it is no member any more
        return look.turn(GroupPhase.PASSED)
    if (said := _judge_rings(look)) is not None:
        return said
    if phase is not GroupPhase.PASSED and look.rollout.prepare == PREPARE_ALL and (news := _newcomers(look)):
        return _Said(Move(look.index, max(phase, GroupPhase.VOTING, key=_IN_ORDER.index), look.group.ring, offer=news))
    match phase:
        case GroupPhase.PENDING:
            return _begin(look, may_release=may_release)
        case GroupPhase.VOTING:
            return _count_votes(look)
        case GroupPhase.READY:
            return _let_go(look) if may_release else _Said(waits="other nodes are still asked")
        case GroupPhase.BAKING:
            return _watch(look)
        case GroupPhase.PASSED:
            return _Said()


# ---- who is asked


def _newcomers(look: _Look) -> tuple[str, ...]:
    """First all of the group; later those that have joined, or all once more where a person has let it go on."""
    return tuple(node.node_id for node in look.nodes if node.step is Step.HELD and not node.is_behind)


def _begin(look: _Look, *, may_release: bool) -> _Said:
    """The next ring is asked, or nobody; of a group that is asked as a whole nobody is left."""
    if look.rollout.prepare == PREPARE_NONE:
        return _begin_at_once(look, may_release=may_release)
    if look.rollout.prepare != PREPARE_RING:
        return look.turn(GroupPhase.VOTING)
    ring = _next_ring(look, {node.node_id for node in look.nodes if _may_be_asked(node)})
    if ring is None:
        return _end(look)
    return _Said(Move(look.index, GroupPhase.VOTING, look.group.ring, offer=ring.node_ids))


def _begin_at_once(look: _Look, *, may_release: bool) -> _Said:
    """The first ring is let go with this look, where it can be: each one more reads all nodes of the change, twice."""
    said = _let_go(look) if may_release else _Said()
    return said if said.move is not None or said.failure else look.turn(GroupPhase.READY)


def _count_votes(look: _Look) -> _Said:
    tally = _tally_of_votes(look)
    if tally.has_failed(look.rollout.success_percent):
        return _Said(look.turn(GroupPhase.VOTING, tally.failed).move, _words_of_vote(look, tally))
    if tally.waiting:
        return _Said(waits=_who_is_asked(tally.waiting))
    if not tally.good and not look.may_go_on:
        return _Said(waits="no node is reachable")
    return look.turn(GroupPhase.READY, tally.failed)


def _tally_of_votes(look: _Look) -> _Tally:
    asked = [node for node in look.nodes if _is_asked(node)]
    return _Tally(
        [node for node in asked if node.verdict is Verdict.ACCEPTED],
        {node.node_id: outcome for node in asked if (outcome := _no_of(look, node)) is not None},
        [node for node in asked if _may_vote_yet(look, node)],
    )


def _is_asked(node: NodeProgress) -> bool:
    return node.step is Step.OFFERED and node.can_vote and not node.outcome and not node.is_behind


def _no_of(look: _Look, node: NodeProgress) -> Outcome | None:
    if node.verdict is Verdict.REFUSED:
        return Outcome.REFUSED
    is_over = node.presence is Presence.REACHABLE and _has_lasted(node.told_s, look.vote_s)
    is_silent = node.verdict is Verdict.NONE and is_over and not look.change.is_immediate
    return Outcome.SILENT if is_silent else None


def _may_vote_yet(look: _Look, node: NodeProgress) -> bool:
    if node.verdict is not Verdict.NONE or node.presence is Presence.OFFLINE:
        return False
    return node.presence is Presence.UNKNOWN or not _has_lasted(node.told_s, look.vote_s)


def _has_lasted(seconds: float | None, least: float) -> bool:
    return seconds is not None and seconds >= least


# ---- who gets it


def _let_go(look: _Look) -> _Said:
    """The next ring, of those that may have it now. What was accepted may be refused by now, and some come late."""
    tally = _tally_of_votes(look)
    if tally.has_failed(look.rollout.success_percent):
        return _Said(look.turn(GroupPhase.READY, tally.failed).move, _words_of_vote(look, tally))
    if tally.failed:
        return look.turn(GroupPhase.READY, tally.failed)
    rest = [node for node in look.nodes if node.step is not Step.RELEASED and not node.outcome]
    if any(node.presence is Presence.UNKNOWN for node in rest):
        return _Said(waits="it is not known yet which nodes are reachable")
    ring = _next_ring(look, {node.node_id for node in rest if _may_have_it(look, node)})
    if tally.waiting and (ring is None or ring.number == len(look.rollout.rings)):
        return _Said(waits=_who_is_asked(tally.waiting))
    if ring is not None:
        return _Said(Move(look.index, GroupPhase.BAKING, ring.number, release=ring.node_ids))
    if look.rollout.prepare == PREPARE_RING and any(_may_be_asked(node) for node in rest):
        return look.turn(GroupPhase.PENDING)
    return _end(look)


def _may_be_asked(node: NodeProgress) -> bool:
    is_free = node.step is Step.HELD and not node.outcome and not node.is_behind
    return is_free and node.presence is Presence.REACHABLE


def _may_have_it(look: _Look, node: NodeProgress) -> bool:
    if node.presence is not Presence.REACHABLE or node.is_behind:
        return False
    if look.rollout.prepare == PREPARE_NONE:
        return True
    if node.step is not Step.OFFERED or node.verdict is Verdict.REFUSED:
        return False
    return node.verdict is Verdict.ACCEPTED or not node.can_vote or look.change.is_immediate


def _next_ring(look: _Look, ready: "set[str]") -> NextRing | None:
    places = [
        RingPlace(
            node.node_id,
            is_ready=node.node_id in ready,
            has_it=node.step is Step.RELEASED and node.ring is not None,
            is_telling=node.is_telling,
            cohorts=node.cohorts,
        )
        for node in look.nodes
    ]
    return next_ring(look.change.change_id, look.rollout, look.group.ring, places)


def _end(look: _Look) -> _Said:
    """No ring takes a node any more: passed, if it was tried at all, and if it is not us who are cut off."""
    if not look.is_anybody_there:
        return look.turn(GroupPhase.PASSED) if look.may_go_on else _Said(waits="no node is reachable")
    behind = [node for node in look.nodes if node.is_behind and node.presence is not Presence.OFFLINE]
    if waiting := [node for node in behind if node.step is not Step.RELEASED and not node.outcome]:
        return _Said(waits=f"{len(waiting)} nodes wait for an earlier change: {_first_of(waiting)}")
    return look.turn(GroupPhase.PASSED) if look.has_released else _hear_anew(look)


def _hear_anew(look: _Look) -> _Said:
    """Nobody is left that would have it. Who is aside may have been mended, and votes once more; if none says yes, what
    comes after this change must not wait for it for ever.
    """
    aside = [node for node in look.nodes if _has_failed(node)]
    if waiting := [node for node in aside if node.step is Step.OFFERED and _may_vote_yet(look, node)]:
        return _Said(waits=_who_is_asked(waiting))
    if not aside:
        return _Said(waits="no reachable node is left that has accepted it")
    failed = {node.node_id: node.outcome for node in aside}
    return _Said(failure=f"none of {len(look.nodes)} nodes has accepted it: {_name(look, failed)}")


# ---- how it goes


def _judge_rings(look: _Look) -> _Said | None:
    """Whether each ring that was let go still has its share. Whatever the group is about: some damage is late."""
    given = [node for node in look.nodes if node.step is Step.RELEASED and node.ring is not None]
    failed = {node.node_id: outcome for node in given if (outcome := _failure_of(look, node)) is not None}
    news = {node.node_id: failed[node.node_id] for node in given if node.node_id in failed and not _has_failed(node)}
    for number in range(1, look.group.ring + 1):
        ring = [node for node in given if node.ring == number]
        well = [node for node in ring if node.node_id not in failed]
        tally = _Tally(well, {node.node_id: failed[node.node_id] for node in ring if node.node_id in failed}, [])
        if tally.has_failed(look.rollout.success_percent):
            return _Said(look.turn(look.group.phase, news).move, _words_of_ring(look, number, tally))
    return look.turn(look.group.phase, news) if news else None


def _watch(look: _Look) -> _Said:
    """The ring that bakes."""
    baking = [node for node in look.nodes if node.step is Step.RELEASED and node.ring == look.group.ring]
    left = [node for node in baking if not _has_failed(node) and not _has_passed(look, node)]
    if not left:
        return look.turn(_anew(look.group))
    left_s = _bake_left_s(look, left)
    return _Said(waits=_what_bakes(look, left, left_s), due_s=left_s if left_s > 0 else math.inf)


def _bake_left_s(look: _Look, nodes: Sequence[NodeProgress]) -> float:
    """Until the last of them has run it for long enough; infinite where one does not run it yet."""
    return max(look.rollout.bake_s - node.active_s if node.active_s is not None else math.inf for node in nodes)


def _has_failed(node: NodeProgress) -> bool:
    return node.outcome in FAILED


def _failure_of(look: _Look, node: NodeProgress) -> Outcome | None:
    """What it says itself, or that it says nothing. What was heard of an earlier ring was heard when it baked."""
    if _has_failed(node):
        return node.outcome
    if not node.outcome:
        return Outcome.SILENT if _has_lasted(node.told_s, ACTIVATE_S) else None
    is_baking = look.group.phase is GroupPhase.BAKING and node.ring == look.group.ring
    if not is_baking or not _has_lasted(node.active_s, look.rollout.bake_s):
        return None
    if _owes_proof(look, node):
        return Outcome.SILENT if _has_lasted(node.active_s, look.rollout.bake_s + ACTIVATE_S) else None
    return Outcome.SILENT if not node.proves and node.presence is Presence.OFFLINE else None


def _has_passed(look: _Look, node: NodeProgress) -> bool:
    """It has run it for the whole bake, and is there to say so, or has said so."""
    if not _has_lasted(node.active_s, look.rollout.bake_s) or _owes_proof(look, node):
        return False
    return node.outcome is Outcome.GOOD or node.presence is Presence.REACHABLE


def _owes_proof(look: _Look, node: NodeProgress) -> bool:
    return node.proves and look.rollout.bake_s > 0 and node.outcome is not Outcome.GOOD


# ---- a person lets it go on


@dataclass(frozen=True)
class Resumption:
    """`aside`: nodes that have the change and are counted no more."""

    groups: tuple[ChangeGroup, ...]
    aside: tuple[str, ...]


def resume(change: ChangeProgress, nodes: Sequence[NodeProgress]) -> Resumption:
    """What has failed so far is left aside. A ring of which nothing is left is let go once more, with other nodes."""
    given = [node for node in nodes if node.step is Step.RELEASED and node.ring is not None]
    left = {(node.group, node.ring) for node in given if not _has_failed(node)}
    groups = tuple(
        replace(group, phase=_anew(group), ring=group.ring - 1)
        if group.phase is GroupPhase.BAKING and (index, group.ring) not in left
        else group
        for index, group in enumerate(change.groups)
    )
    return Resumption(groups, tuple(node.node_id for node in given if _has_failed(node)))


def _anew(group: ChangeGroup) -> GroupPhase:
    return GroupPhase.PENDING if group.rollout.prepare == PREPARE_RING else GroupPhase.READY


# ---- in words


def _words_of_vote(look: _Look, tally: _Tally) -> str:
    asked = len(tally.good) + len(tally.failed) + len(tally.waiting)
    return f"{len(tally.failed)} of {asked} nodes that were asked did not accept it: {_name(look, tally.failed)}"


def _words_of_ring(look: _Look, number: int, tally: _Tally) -> str:
    count = len(tally.good) + len(tally.failed)
    return f"{len(tally.failed)} of {count} nodes of ring {number} did not keep it: {_name(look, tally.failed)}"


def _name(look: _Look, failed: Mapping[str, Outcome]) -> str:
    said = [
        f"{node.node_id} {failed[node.node_id]}" + (f" ({node.words})" if node.words else "")
        for node in look.nodes
        if node.node_id in failed
    ]
    more = f" and {len(said) - NAMED} more" if len(said) > NAMED else ""
    return "; ".join(said[:NAMED]) + more


def _who_is_asked(waiting: Sequence[NodeProgress]) -> str:
    untold = sum(node.told_s is None for node in waiting)
    more = f", {untold} of them not told yet" if untold else ""
    return f"{len(waiting)} nodes have not voted yet{more}: {_first_of(waiting)}"


def _what_bakes(look: _Look, waiting: Sequence[NodeProgress], left_s: float) -> str:
    absent = [node for node in waiting if not node.outcome]
    if absent:
        return f"ring {look.group.ring}: {len(absent)} nodes do not run it yet: {_first_of(absent)}"
    if left_s > 0:
        return f"ring {look.group.ring} bakes for {left_s:.0f} s more"
    return f"ring {look.group.ring}: {len(waiting)} nodes have not said yet that all is well: {_first_of(waiting)}"


def _first_of(nodes: Iterable[NodeProgress]) -> str:
    names = [node.node_id for node in nodes]
    return ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")
