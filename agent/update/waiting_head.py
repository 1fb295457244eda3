"""A head that waits a moment for what it lists, so that both become active in one activation (rules X17, S67).

    wait           a verified head waits, while the round brings what it lists; whether it is active then
    holdings       what a round goes by: what is held, under the head that waits
    activate       what the round has brought, and the head with it
    let_go         the round has nothing for it: it becomes active alone
    let_decide     while it does, the round waits

Activated one after the other a head and its documents cost two commits, two floor files, and everybody who follows the
generation is woken twice: an eighth of what a node pays for 1 MiB, and a quarter of one section.

A head is not held back for anything that it says itself. It waits only where it says nothing but which versions there
are: of the same epoch, with the revocations and the scopes of the head that is held, and while that one is fresh. It
waits only while the round rests, which begins at once then. After `HOLD_S` it becomes active alone, and the round goes
on: its documents follow, as those of any other head. Nothing of this is kept: after a crash the head that was held is
held, and the next answer brings the other one again.

A verdict is of what was held when it was given. Where something else has become active since, which may be the bundle
that takes the signer away, the head is judged again and becomes active alone. What it lists comes after it, never
before: on the terms that it says, and only where it was taken.

Rejected:

- Ending the download with the head's patience: a connection is given up with it, so in a storm, where documents take
  long, each node would open another one for each head.
- Holding back every head: a revocation would wait for a document that whoever is revoked makes last.
- Going by the head before while this one becomes active alone: what has just come would be wanted by neither of the
  two, and fetched once more.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import trio

from agent.state.held_state import Holdings
from agent.state.node import RunningNode
from agent.state.plan import plan
from agent.update.activating import Activator
from agent.update.admission import Candidate
from snapshot.manifest import Head

HOLD_S = 1.0


@dataclass
class _Held:
    """`generation`: in which it was judged. `settled`: it waits no more. `decided`: it is active, or was not taken."""

    candidate: Candidate
    head: Head
    generation: int
    settled: trio.Event = field(default_factory=trio.Event)
    decided: trio.Event = field(default_factory=trio.Event)
    is_being_taken: bool = False
    is_active: bool = False


@dataclass
class WaitingHead:
    """Of one node; none waits most of the time."""

    node: RunningNode
    activating: Activator
    _held: _Held | None = None

    @asynccontextmanager
    async def wait(self, candidate: Candidate, generation: int, begin_round: Callable[[], bool]) -> AsyncIterator[bool]:
        """Whether it is active now; where not, it becomes so in the block, or is not taken. `generation`: by which it
        was judged. `begin_round`: whether one has begun that brings what is listed.
        """
        head, is_of_now = candidate.verified.head, generation == self.node.holdings.kept.generation
        if head is None or not is_of_now or not self._says_versions_alone(candidate, head) or not begin_round():
            yield False
            return
        held = self._held = _Held(candidate, head, generation)
        self.node.waiting_head = candidate.verified
        try:
            with trio.move_on_after(HOLD_S):
                await held.settled.wait()
            if held.is_being_taken:
                await held.settled.wait()
            held.settled.set()
            yield held.is_active
        finally:
            held.settled.set()
            held.decided.set()
            self._held = self.node.waiting_head = None

    def holdings(self) -> Holdings:
        """Under the head that waits, or becomes active alone, where one does and was judged by what is held now."""
        held, holdings = self._held, self.node.holdings
        return holdings if held is None or not self._is_of_now(held) else replace(holdings, head=held.head)

    async def activate(self, candidates: Sequence[Candidate]) -> None:
        """StoreError: neither they nor the head."""
        await self.node.finish_activation()  # by which the head that waits was not judged
        held = self._held
        if held is None or not self._waits(held):
            await self.activating.activate(candidates)
            return
        held.is_being_taken = True
        try:
            await self.activating.activate([held.candidate, *candidates])
            held.is_active = True
        finally:
            held.settled.set()

    def let_go(self) -> None:
        """Who waits with it goes on."""
        if self._held is not None:
            self._held.settled.set()

    async def let_decide(self) -> None:
        """Of a head that becomes active alone. One that was judged by something else than is held does so now."""
        held = self._held
        if held is not None and not self._waits(held):
            held.settled.set()
            await held.decided.wait()

    def _waits(self, held: _Held) -> bool:
        return self._is_of_now(held) and not held.settled.is_set()

    def _is_of_now(self, held: _Held) -> bool:
        return held.generation == self.node.holdings.kept.generation

    def _says_versions_alone(self, candidate: Candidate, head: Head) -> bool:
        """Of what this node holds in good order, and of something that is to be brought."""
        node, before = self.node, self.node.holdings.head
        if before is None or candidate.verified.envelope.authority_epoch != node.holdings.held_head[0]:
            return False
        if head.revocations != before.revocations or head.scopes.keys() != before.scopes.keys():
            return False
        wanted = plan(replace(node.holdings, head=head))
        is_orderly = not wanted.trust and not wanted.dropped and not any(scope.below for scope in wanted.wanted)
        return bool(wanted.wanted) and is_orderly and node.gate_facts().head_is_fresh(node.now())
