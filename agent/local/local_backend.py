"""The node as the local API asks for it: what the gate goes by, the status report, documents handed in."""

from collections.abc import AsyncIterable, Callable, Collection, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from agent.base.byte_source import Chunks, opening_of
from agent.local.decisions import Decisions
from agent.services.running import Running
from agent.state import node_state
from agent.state.coming import is_coming
from agent.state.endings import endings
from agent.state.node import RunningNode
from agent.state.own_bounds import OwnRefusalError
from agent.state.plan import plan
from agent.state.root_pinning import OtherRootsError, peek_envelope, roots_report, with_confirmation
from agent.update.download import NotListedError
from snapshot.degraded import GateAnswer, GateFacts, Question
from snapshot.ending import Thing
from snapshot.envelope import SHARED, Envelope
from snapshot.frozen import mutable
from snapshot.identifiers import format_time
from snapshot.manifest import ScopeVersion
from snapshot.reasons import Reason, Rejected
from store.base.errors import StoreError
from store.base.records import FailedContent
from wire.endings import EndingThing
from wire.local.local_answers import ConfirmedRoots, TakenDocument
from wire.local.node_status import NodeClock, NodeReport, StorageCondition, StoreCondition
from wire.logs import log
from wire.request import HttpError
from wire.version import VERSION

if TYPE_CHECKING:  # they cost what the first answer need not wait for
    from agent.relay.relaying import Relay
    from agent.sources.sources import Sources
    from agent.update.update import Update


@mutable
class Front:
    """Complete from the start: who asks before the agent has begun to speak to anybody is told that it asks nobody."""

    node: RunningNode
    decisions: Decisions
    running: Running
    _update: "Update | None" = field(default=None, init=False)
    _sources: "Sources | None" = field(default=None, init=False)
    _relay: "Relay | None" = field(default=None, init=False)
    _storage: Callable[[], StorageCondition | None] | None = field(default=None, init=False)
    _ends: Callable[[], Sequence[Thing]] | None = field(default=None, init=False)

    def begin_to_ask(
        self,
        update: "Update",
        sources: "Sources",
        relay: "Relay",
        ends: Callable[[], Sequence[Thing]],
        storage: Callable[[], StorageCondition | None],
    ) -> None:
        """What speaks to others is loaded after the first answer; from here on it is asked about, and given files."""
        self._update, self._sources, self._relay, self._ends = update, sources, relay, ends
        self._storage = storage

    def changes(self) -> int:
        return self.node.changed.value

    def gate_facts(self) -> GateFacts:
        return self.node.gate_facts()

    def listed_scopes(self) -> frozenset[str] | None:
        return self.node.listed_scopes()

    async def known_running(self, question: Question, facts: GateFacts) -> frozenset[str]:
        return await self.running.known_running(question, facts)

    def wanted_scopes(self) -> Mapping[str, ScopeVersion]:
        return {wanted_scope.scope: wanted_scope.listed for wanted_scope in plan(self.node.holdings).wanted}

    def note_decision(self, question: Question, answer: GateAnswer, uid: int, now: float) -> None:
        self.running.note_answer(question, answer, now)
        self.decisions.note(question, answer, uid, now)

    def report(self) -> NodeReport:
        """For `/v1/status`."""
        node, moment = self.node, self.node.moment()
        facts = node.facts(moment)
        present = node_state.assess(facts, moment.now)
        since = node_state.degradation_start(facts, moment.now)
        bundle = node.holdings.bundle
        origins = self._update.activating.origins if self._update else node.remembered.origins
        ends = self._ends() if self._ends else endings(bundle, ())
        return NodeReport(
            node_id=node.settings.node.node_id,
            cluster_id=node.settings.node.cluster_id,
            agent_version=VERSION,
            incarnation=node.store.incarnation,
            state=str(present.state),
            cause=str(present.cause),
            join=failure.to_message() if (failure := node.membership.failure) else None,
            degraded_since=None if since is None else format_time(since),
            rollback_check="confirmed" if node.check_in.confirmed else "unconfirmed",
            roles=tuple(sorted(map(str, node.holdings.roles))),
            roots=roots_report(node.reader.enrolled, node.settings.trust),
            trust_bundle_version=bundle.version if bundle else 0,
            clock=NodeClock(
                synchronised=moment.synchronised,
                offset_floor_s=int(-moment.behind_s),
                regressed=facts.clock_regressed,
            ),
            sources=self._sources.report() if self._sources else (),
            awaited=self._update.awaited_scopes() if self._update else {},
            candidates=self._update.preparation.report() if self._update else {},
            origins={scope: origin.to_message() for scope, origin in origins.items()},
            recovering=tuple(sorted(facts.gaps | facts.behind)),
            refresh_required=tuple(sorted(node.gaps.refresh_required)),
            passed_over=tuple(sorted(self._update.passed_over)) if self._update else (),
            store=StoreCondition(str(node.store_fault), node.holdings.floor_lost),
            relay=self._relay.report() if self._relay else None,
            storage=None if self._storage is None else self._storage(),
            ends=tuple(EndingThing.of(ending, moment.now) for ending in ends),
            counters=node.counters.all(),
        )

    async def list_quarantine(self) -> Sequence[FailedContent]:
        return await self.node.threads.read(self._quarantine)

    def _quarantine(self) -> Sequence[FailedContent]:
        with self.node.store.read() as reading:
            return reading.in_quarantine()

    async def clear_quarantine(self, scope: str, by: str) -> Sequence[FailedContent]:
        """Kept in the journal; and tried again at once."""
        node = self.node
        try:
            held = await node.change(node.store.clear_quarantine, scope, now=node.now(), by=by)
        except StoreError as error:
            raise HttpError(503, str(error.fault), f"{error.detail}; {error.remedy}", retry_after=30) from error
        if held:
            log.warning("quarantine cleared", scope=scope, versions=[entry.config_version for entry in held], by=by)
            node.tell_news()
            if self._update is not None:
                self._update.wake()
        return held

    async def confirm_roots(self, named: Collection[str], threshold: int) -> ConfirmedRoots:
        """Kept, once they are those that this node holds."""
        node = self.node
        held = node.reader.enrolled
        if held is None:
            raise HttpError(409, "not_enrolled", "this node has pinned no root keys yet: holdfast join")
        try:
            enrolled = with_confirmation(held, named, threshold)
        except OtherRootsError as error:
            log.warning("root keys not confirmed", named=sorted(named), threshold=threshold)
            raise HttpError(409, "other_roots", f"{error}; nothing was confirmed") from error
        outcome = "already_confirmed" if node.has_confirmed_roots() else "confirmed"
        try:
            await node.threads.write(node.store.enrol, enrolled)
        except StoreError as error:
            raise HttpError(503, str(error.fault), f"{error.detail}; {error.remedy}", retry_after=30) from error
        node.reader.enrolled = enrolled
        node.tell_news()
        log.info("root keys confirmed", root_key_ids=sorted(enrolled.root_keys), threshold=threshold)
        return ConfirmedRoots(outcome, tuple(sorted(enrolled.root_keys)), threshold)

    async def take(self, document: AsyncIterable[bytes]) -> TakenDocument:
        """A document from another medium (protocol.md 4). Its kind is what it says: everything else is verified."""
        if self._update is None:
            raise HttpError(503, "not_ready", "the agent is still starting", retry_after=1)
        chunks = aiter(document)
        first = await opening_of(chunks)
        said = peek_envelope(first, self.node.holdings.holder.limits)
        if said is None:
            raise Rejected(0, Reason.BAD_CONTAINER, expected="a document", found="something else")
        data = Chunks(first, chunks)
        try:
            if self._relay is not None and not self._is_ours(said) and self._relay.may_keep(said):
                is_new = await self._relay.take(data, said)
                outcome = "kept_for_neighbour" if is_new else "already_applied"
                return TakenDocument(outcome, said.scope, *said.version)
            if is_coming(said, self.node.holdings):
                return await self._update.preparation.take(data, said, "import")
            return await self._update.importing.take(data, said.kind, "import", said.scope)
        except NotListedError as error:
            raise HttpError(409, "not_listed", f"the head does not list it: {error}") from error
        except OwnRefusalError as error:
            raise HttpError(422, error.reason, error.detail, step=error.step) from error
        except StoreError as error:
            raise HttpError(503, str(error.fault), f"{error.detail}; {error.remedy}", retry_after=30) from error

    def _is_ours(self, said: Envelope) -> bool:
        """Or may become so: what is shared is ours where this node may take it now."""
        if said.subject_node_id == SHARED and self._update is not None:
            return is_coming(said, self.node.holdings) or self._update.importing.may_be_taken(said)
        return said.subject_node_id == self.node.settings.node.node_id
