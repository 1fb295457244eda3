"""From the disk to a node that can be asked, without a network (rules A10, A15, L29; threats D-26). Synchronous.

hold_store       lock, file modes, store check, floors and marks (hold.py)
open_store       what is read of it
judge_starts     starts without order counted, before anything is read
verify_active    the active state judged again, whole; damage falls back to previous
make_node        the node, with what it was before
"""

from dataclasses import replace

from agent.base.clock import Clock
from agent.base.guarded_clock import ClockReading, guard
from agent.base.threads import Threads
from agent.config.configuration import AgentSettings
from agent.config.token import find_tokens
from agent.enrolment.hold import HeldStore
from agent.state.held_state import BOOTSTRAP, RUNTIME, Holdings, HoldingsReader
from agent.state.node import RunningNode
from agent.state.remembered import Remembered
from agent.state.root_pinning import roots_of
from agent.state.view import Views
from snapshot.bundle import SCOPE as TRUST_BUNDLE
from snapshot.frozen import frozen
from snapshot.reasons import Rejected
from snapshot.reverify import is_accepted, judge_again
from store.base.documents import HashedDocument, StoredDocument
from store.base.errors import StoreError
from store.base.layout import Root
from store.store import Store
from wire.logs import log

FIRST = (TRUST_BUNDLE, BOOTSTRAP, RUNTIME)
MOST_ROUNDS = 3  # active, previous, nothing


@frozen
class OpenedStore:
    """What is made of the store that was taken hold of."""

    root: Root
    store: Store
    views: Views
    reader: HoldingsReader


def open_store(settings: AgentSettings, held: HeldStore, reading: ClockReading) -> OpenedStore:
    """StoreError, as the store has it; `held` is the caller's to let go."""
    node, store = settings.node, held.store
    judge_starts(store, reading)
    views = Views(store, settings.intervals.head_fresh_s)
    reader = HoldingsReader(store, views, node.cluster_id, node.node_id, settings.limits.documents())
    enrolled = store.enrolment
    reader.roots = roots_of(enrolled) if enrolled is not None else None
    reader.enrolled = enrolled
    return OpenedStore(held.root, store, views, reader)


def judge_starts(store: Store, reading: ClockReading) -> None:
    """What is on probation, and takes the agent or the machine down again and again, goes before anybody reads it.
    What serves instead is verified in a moment, as all that is active.
    """
    moment = guard(reading, store.time_floor)
    faults = store.note_start(moment.boot, moment.now)
    for scope, fault in faults.items():
        for happened in store.revert(scope, check="start", detail=fault, now=moment.now).values():
            log.error("probation failed", scope=scope, check="start", detail=fault, outcome=happened)


def verify_active(store: Store, reader: HoldingsReader, now: float) -> list[str]:
    """The scopes that had to leave their active document. What serves afterwards has been verified just now.

    Sections that the store's start has hashed are not hashed again for it (threats D-26); each read does (rules L29).
    """
    left: list[str] = []
    for _ in range(MOST_ROUNDS):
        holdings = reader.read()
        damaged = _faults(holdings, now, hashed=store.hashed_at_start)
        for scope, cause in damaged.items():
            store.fall_back(scope, now=now, cause=cause)
            version = holdings.kept.active[scope].version
            log.error("active document is damaged", scope=scope, version=version, cause=cause)
        left += damaged
        if not damaged:
            break
    return left


def _faults(holdings: Holdings, now: float, *, hashed: bool) -> dict[str, str]:
    active = holdings.kept.active
    if hashed:
        active = {scope: HashedDocument.just_now(document) for scope, document in active.items()}
    ordered = sorted(active, key=lambda scope: (scope not in FIRST, scope))
    faults = {scope: _fault(active[scope], holdings, now) for scope in ordered}
    return {scope: fault for scope, fault in faults.items() if fault}


def _fault(document: StoredDocument, holdings: Holdings, now: float) -> str:
    """Why it cannot be what serves; empty when it can."""
    # What the node was assigned when it was accepted: a role revoked since is the gate's business.
    holder = replace(holdings.holder, roles=holdings.roles)
    try:
        judge_again(document, holder, now=now)
        accepted = document.scope in holder.lost or is_accepted(document, holder, holdings.kept.recoveries)
    except Rejected as refused:
        return f"step {refused.step}: {refused.reason}; {refused.detail}"
    except StoreError as error:
        return error.detail
    return "" if accepted else "it is not the version that was accepted"


def make_node(settings: AgentSettings, clock: Clock, threads: Threads, opened: OpenedStore) -> RunningNode:
    """The node, and what outlives a process beside the documents."""
    remembered = Remembered.read(opened.store)
    node = RunningNode(settings, clock, threads, opened.store, opened.reader, remembered)
    now = node.now()
    for scope in verify_active(opened.store, opened.reader, now):
        node.counters.add("active_documents_damaged")
        log.warning("scope left its active document", scope=scope)
    node.holdings = opened.reader.read()
    node.membership.is_member = is_member(opened.store, node.holdings)
    node.membership.other_cluster = _is_for_another_cluster(settings)
    node.facts()  # from now on the outage is timed, and a fresh head is one that was seen
    return node


def is_member(store: Store, holdings: Holdings) -> bool:
    """rules A2: it has an identity, roots that are pinned, and a trust bundle that they lead to."""
    return store.paths.identity_file.exists() and store.enrolment is not None and TRUST_BUNDLE in holdings.kept.marks


def _is_for_another_cluster(settings: AgentSettings) -> bool:
    """rules K27: a token of another cluster than the one whose store this is."""
    tokens = find_tokens(settings.token_files()).tokens if settings.coordinator is not None else ()
    cluster = tokens[0].cluster_id if tokens else None
    return cluster is not None and cluster != settings.node.cluster_id
