"""What the agent's tasks share: settings, clocks, store, and what is known beside it. One object, no tasks of its own.

    change(operation, ...)   change the store on its thread; afterwards `holdings` are those of the new generation
    standing(), facts()      judged anew at each use, since expiry is decided at the moment of use
    changed                  wakes whoever follows what the node knows

What is learnt while running and is in no document lies with who learns it: here what the states depend on, each with
one writer (`membership` the join, `check_in` who speaks to coordinators, `gaps` and `revocation` the update).
"""

from collections.abc import Callable
from dataclasses import replace
from typing import ParamSpec, TypeVar

from agent.base.clock import Clock
from agent.base.generation import Generation
from agent.base.guarded_clock import GuardedTime, OutageClock, Regression, guard
from agent.base.telemetry import Counters
from agent.base.threads import Threads
from agent.config.configuration import AgentSettings
from agent.state import node_state as standing
from agent.state.check_in import CheckIn
from agent.state.gaps import Gaps
from agent.state.held_state import BOOTSTRAP, Holdings, HoldingsReader
from agent.state.lost_floors import AtStart
from agent.state.membership import Membership
from agent.state.node_state import NodeFacts, NodeState
from agent.state.own_revocation import OwnRevocation
from agent.state.remembered import NOTHING, Remembered
from agent.state.root_pinning import are_confirmed
from snapshot import degraded
from snapshot.grants import pin_of
from snapshot.identifiers import HEAD
from snapshot.verifier_state import VerifierState
from snapshot.verify import Verified
from store.base.errors import StoreError, StoreFault
from store.store import Store
from wire.logs import log

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class RunningNode:
    """Made once the store is open; `reader` knows whose it is."""

    def __init__(
        self,
        settings: AgentSettings,
        clock: Clock,
        threads: Threads,
        store: Store,
        reader: HoldingsReader,
        remembered: Remembered = NOTHING,
    ) -> None:
        self.settings = settings
        self.threads = threads
        self.store = store
        self.reader = reader
        self.holdings: Holdings = reader.read()
        self.remembered = remembered
        self.membership = Membership()
        self.check_in = CheckIn()
        self.gaps = Gaps()
        self.revocation = OwnRevocation.from_row(remembered.revoked)
        self.authorities_row = remembered.authorities  # sources.py writes it
        self.store_fault = ""  # of the last change, until one is taken again
        self.waiting_head: Verified | None = None  # verified, and not active for a moment (update/waiting_head.py)
        self.counters = Counters()
        self.changed = Generation(0)
        self.news = Generation(0)  # an activation or a rejection, which the next heartbeat should not wait for
        self.outage = OutageClock(remembered.outage)
        self._regression = Regression()
        self._head_was_fresh = False
        self._configured_pins = frozenset(
            pin_of(node_id, certificate)
            for node_id, certificate in [
                *((peer.node_id, peer.certificate) for peer in settings.peers.bootstrap),
                *((peer.node_id, peer.certificate) for peer in settings.manual_peers),
            ]
        )
        self._clock = clock
        self.start = AtStart(self.now(), self.holdings.head_hash)

    # ---- time

    def moment(self) -> GuardedTime:
        return guard(self._clock.read(), self.store.time_floor)

    def now(self) -> float:
        """Unix seconds by the guarded clock."""
        return self.moment().now

    # ---- judged at each use

    def facts(self, moment: GuardedTime | None = None) -> NodeFacts:
        moment = moment or self.moment()
        holdings, membership = self.holdings, self.membership
        gate = self._gate(moment)
        self._head_was_fresh |= gate.head_is_fresh(moment.now)
        return NodeFacts(
            member=membership.is_member,
            joining=membership.is_joining,
            refusal=membership.refusal,
            other_cluster=membership.other_cluster,
            bootstrap_accepted=BOOTSTRAP in holdings.kept.marks,
            head_accepted=HEAD in holdings.kept.marks,
            revoked=self.revocation.holds or holdings.is_revoked,
            clock_regressed=self._regression.is_met(moment),
            listed=holdings.listed_scopes,
            lost=holdings.kept.lost - holdings.kept.reverted,
            on_previous=frozenset(name for name, scope in holdings.view.scopes.items() if scope.record.on_previous),
            gaps=self.gaps.scopes,
            behind=frozenset(self.check_in.behind),
            gate=replace(gate, confirmed=self._head_was_fresh),
        )

    def standing(self) -> NodeState:
        moment = self.moment()
        return standing.assess(self.facts(moment), moment.now)

    def gate_facts(self) -> degraded.GateFacts:
        """What the gate of degraded mode goes by, now."""
        moment = self.moment()
        return standing.gate_facts(self.facts(moment), moment.now)

    def listed_scopes(self) -> frozenset[str] | None:
        """None without a head."""
        return None if self.holdings.head is None else self.holdings.listed_scopes

    def holder(self) -> VerifierState:
        """The verifier's view of this node, now."""
        return replace(self.holdings.holder, clock_synchronised=self.moment().may_be_synchronised)

    def has_confirmed_roots(self) -> bool:
        """Whether somebody has said whose they are, before the join or since; true where none are pinned."""
        enrolled = self.reader.enrolled
        return enrolled is None or are_confirmed(enrolled, self.settings.trust)

    def _gate(self, moment: GuardedTime) -> degraded.GateFacts:
        holdings, expires_at = self.holdings, self.holdings.head_expires_at
        expired_for_s = 0.0
        if HEAD in holdings.kept.marks:
            expired_for_s = self.outage.outage_s(holdings.head_hash, expires_at, moment)
        return degraded.GateFacts(
            head_expires_at=expires_at,
            head_expired_for_s=expired_for_s,
            scopes=holdings.scopes,
            policy=holdings.policy,
            revocations=holdings.revocations,
            authority_epoch=holdings.bundle.authority_epoch if holdings.bundle else 0,
            node_id=self.settings.node.node_id,
            roles=holdings.roles,
            roots_confirmed=self.has_confirmed_roots(),
            configured_pins=self._configured_pins,
        )

    # ---- changing what is held

    async def change(
        self, operation: Callable[Parameters, Result], *arguments: Parameters.args, **named: Parameters.kwargs
    ) -> Result:
        """Change the store; when this returns, `holdings` are those after the change, and who waits has been woken.

        StoreError as the operation raises it.
        """

        def work() -> tuple[Result, Holdings]:
            result = operation(*arguments, **named)
            return result, self._read()

        try:
            result, holdings = await self.threads.write(work)
        except StoreError as error:
            self.counters.add("store_refusals")
            self.note_store_refusal(error)
            raise
        self.store_fault = ""
        self._hold(holdings)
        return result

    async def finish_activation(self) -> None:
        """What failed at its commit alone, if anything did: the floors name it, so it comes first. StoreError.

        The store does so by itself where something is received, and nobody would learn that what it held then has
        changed: a head that is active already would be asked for again, and be a conflict each time.
        """
        if self.store.is_unfinished:
            await self.change(self.store.resume, self.now())

    def note_store_refusal(self, error: StoreError) -> None:
        """Shown and reported until a change is taken again (rules L35)."""
        if error.fault != self.store_fault:
            self.store_fault = error.fault
            self.news.tell(self.news.value + 1)

    async def reload(self) -> None:
        """After a change that was not made by `change`."""
        self._hold(await self.threads.write(self._read))

    def tell(self) -> None:
        """Something has changed that the states depend on."""
        self.changed.tell(self.changed.value + 1)

    def tell_news(self) -> None:
        self.news.tell(self.news.value + 1)
        self.tell()

    def _hold(self, holdings: Holdings) -> None:
        activated = holdings.kept.generation != self.holdings.kept.generation
        self.gaps.follow(self.holdings.kept.active, holdings.kept.active)
        self.holdings = holdings
        self.check_in.follow(holdings)
        if activated:
            self.tell_news()
        else:
            self.tell()

    def _read(self) -> Holdings:
        """Damage that is met while reading is taken out at once, and what is left is read (rules L34)."""
        try:
            return self.reader.read()
        except StoreError as error:
            if error.fault is not StoreFault.STORE_CORRUPT:
                raise
            log.warning("damage met while reading", detail=error.detail)
            while not self.store.scrub.step(self.now()).done:
                pass
            return self.reader.read()

    # ---- what is learnt

    async def note_check_in(self) -> None:
        """The coordinator has answered: the floor is right, and how far it has come is kept (rules A17, A18)."""
        moment = self.moment()
        self._regression.confirm(moment)
        if self.check_in.note_answer():
            self.tell()
        if self.store.is_time_floor_behind(moment.boot):
            await self.threads.write(self.store.save_time_floor, moment.boot)

    def note_revocation_claim(self, source: str) -> bool:
        """A coordinator says that we are revoked; whether that is new. Nothing stops for it: whoever has a listener's
        key could say so, and every node would stop at once. What is true stands in the next head or trust bundle,
        signed, and those are asked for all the time (rules A9). Rejected: to fence on it until a newer head comes.
        """
        is_new = self.check_in.note_revocation_claim(source)
        self.counters.add("revocation_claims")
        if is_new:
            log.warning("a coordinator says that this node is revoked, unsigned: nothing stops for it", source=source)
            self.tell()
        return is_new
