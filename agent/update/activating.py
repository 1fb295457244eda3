"""The swap: what becomes active, and what goes, with everything beside it that must follow (rules S67, S3, A9).

One place where the node's active set changes, whether it is a scope that came, one that the head lists no more, or all
of them because the node was revoked; so what has to follow stands beside it: connections of removed peers end, and
origins are noted for people. The change itself is one call of the store, made on the writer's thread. What failed at
its commit before comes first: the floors name one activation alone, so what they name now would never be active.

Origins are written down in the store's transaction, which does not fail for them: they are for people.

Revoked is not wiped: section bytes go, since the node may not use them any more; identity, trust, marks and the
journal stay. Without the marks it could be given an old version after it is readmitted, and without the journal nobody
would learn what it did last. The epoch of the head that said so is kept as well: where the roots end that epoch later,
because its signing key was stolen, the revocation that the thief signed ends with it.

Rejected: a hook for whoever wants to know. Services and reports follow the generation instead
(`agent/base/generation.py`), so that somebody who was not there at the moment of the change is told all the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agent.services.probation_terms import probation_terms
from agent.sources.sources import Sources
from agent.state import origins, own_revocation
from agent.state.health_rows import REVOKED_ROW
from agent.state.node import RunningNode
from agent.state.origins import Giver, Origin
from agent.state.own_revocation import OwnRevocation
from agent.state.plan import WantedScope
from agent.update.admission import Candidate
from snapshot.bundle import SCOPE as TRUST_BUNDLE
from snapshot.identifiers import HEAD
from snapshot.verify import Verified
from store.base.errors import StoreError
from store.base.records import ProbationTerms
from store.base.tables import Name
from wire.logs import log


@dataclass
class Activator:
    """`origins`: of each active scope."""

    node: RunningNode
    sources: Sources
    origins: Mapping[str, Origin] = field(init=False)

    def __post_init__(self) -> None:
        self.origins = self.node.remembered.origins

    async def activate(self, candidates: Sequence[Candidate]) -> None:
        """All or none, in one transaction; durable when it returns. StoreError."""
        await self.node.finish_activation()
        moment = self.node.moment()
        verified = [candidate.verified for candidate in candidates]
        given = [(candidate.verified, candidate.giver) for candidate in candidates]
        known = self._origins_with(given)
        generation = await self.node.change(
            self.node.store.activate,
            *verified,
            now=moment.now,
            boot=moment.boot,
            probations=self._probations(verified),
            beside={origins.ROW: origins.row(known)} if known != self.origins else {},
        )
        self.origins = self._origins_with(given)  # others may have become active meanwhile
        await self.sources.forget_removed()  # a transfer may be running meanwhile
        scopes = [document.scope for document in verified]
        self.node.counters.add("activations")
        log.info(
            "activated",
            generation=generation,
            scopes=scopes,
            versions=[document.envelope.version for document in verified],
            sources=[candidate.source for candidate in candidates],
        )

    def _probations(self, verified: Sequence[Verified]) -> dict[str, ProbationTerms]:
        """By scope. What the head says is about the document that it lists; one that comes with it counts."""
        services = self.node.settings.services
        head = next((document.head for document in verified if document.head is not None), self.node.holdings.head)
        found = {}
        for document in verified:
            listed = head.scopes.get(document.scope) if head is not None else None
            is_listed = listed is not None and WantedScope(document.scope, listed).is_met_by(document.envelope)
            listed_s = listed.probation_s if listed is not None and is_listed else None
            terms = probation_terms(document.scope, listed_s, services, self.sources.answered_s_ago)
            if terms is not None:
                found[document.scope] = terms
        return found

    async def note_origin(self, verified: Verified, giver: Giver) -> None:
        """Of a document that was activated elsewhere. What goes wrong here is no fault of the activation (rules L3)."""
        self.origins = self._origins_with([(verified, giver)])
        try:
            health = self.node.store.table(Name.HEALTH)
            await self.node.threads.write(health.put, origins.ROW, origins.row(self.origins))
        except StoreError as error:
            log.warning("origins not kept", fault=error.fault, detail=error.detail)

    def _origins_with(self, given: Sequence[tuple[Verified, Giver]]) -> dict[str, Origin]:
        """Of what is active with these."""
        new = {
            verified.scope: Origin.of(verified.envelope.snapshot_id, giver, verified.kind)
            for verified, giver in given
            if verified.scope != HEAD
        }
        return origins.after(self.origins, new, self.node.holdings.scopes.keys() | new.keys())

    async def withdraw(self, scopes: Sequence[str]) -> None:
        """The head lists them no more. StoreError."""
        generation = await self.node.change(self.node.store.withdraw, *scopes, now=self.node.now())
        await self.sources.forget_removed()
        log.info("scopes withdrawn", generation=generation, scopes=list(scopes))

    async def let_all_go(self) -> None:
        """This node is revoked: section bytes go; identity, trust, marks and the journal stay (rules A9)."""
        node, epoch = self.node, self._revoking_epoch()
        if node.revocation != OwnRevocation(True, epoch):
            row = own_revocation.to_row(epoch, node.now())
            await node.threads.write(node.store.table(Name.HEALTH).put, REVOKED_ROW, row)
            node.revocation.begin(epoch)
            log.error("this node is revoked: its scopes are let go")
        held = [scope for scope in node.holdings.scopes if scope != TRUST_BUNDLE]
        if held:
            await node.change(node.store.withdraw, *held, now=node.now())
            await node.threads.write(node.store.garbage.run)

    async def come_back(self) -> None:
        """What a head alone has said is over with the bundle of a higher epoch that does not name this node: the roots
        have taken back whatever was signed in the epoch before, a stolen key's word as well. What a bundle has said is
        left by enrolment anew alone (rules A9). StoreError.
        """
        node = self.node
        bundle, epoch = node.holdings.bundle, node.revocation.epoch
        if node.holdings.is_revoked or bundle is None or not 0 < epoch < bundle.authority_epoch:
            return
        await node.threads.write(node.store.table(Name.HEALTH).delete, REVOKED_ROW)
        node.revocation.end()
        log.warning("no longer revoked: the roots have ended the epoch of the head that said so", epoch=epoch)
        node.tell()

    def _revoking_epoch(self) -> int:
        """Of the head that revokes this node; 0: the trust bundle does."""
        holdings, node_id = self.node.holdings, self.node.settings.node.node_id
        if holdings.bundle is not None and node_id in holdings.bundle.revocations.node_ids:
            return 0
        if not holdings.is_revoked:
            return self.node.revocation.epoch
        return holdings.held_head[0]
