"""What speaks to coordinators and storage, built from the configuration. Loaded once local callers are served."""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import trio

from agent.config.credentials import NODE_KEY, credential
from agent.enrolment.certificate_ends import CertificateEnds
from agent.enrolment.identity import IdentityFile
from agent.enrolment.joining import Joining
from agent.enrolment.start import OpenedStore
from agent.local.local import Local
from agent.peers.listener import PeerListener
from agent.peers.peer_api import PeerApi
from agent.peers.shelf import Shelf
from agent.peers.standing import Standings
from agent.relay.neighbour_heads import NeighbourHeads
from agent.relay.relaying import Relay
from agent.report.heartbeat import Reporting
from agent.sources.sources import Sources
from agent.sources.way import Way
from agent.state.node import RunningNode
from agent.storage.replicating import Replicating
from agent.storage.storage_api import PublishedFilesApi
from agent.storage.storage_listener import StorageListener
from agent.storage.storage_terms import SignedTerms
from agent.storage.taking import FileTaking
from agent.update.admission import Admission
from agent.update.head_proof import Showing
from agent.update.peer_rounds import PeerRounds
from agent.update.refresh import Refresh
from agent.update.retry_schedule import PutOffs
from agent.update.second_look import SecondLook
from agent.update.trust import TrustChain
from agent.update.update import Update
from store.published_files import PublishedFiles
from store.relay import RelayBounds, RelayStore
from wire.certificate import fingerprint
from wire.tls_contexts import TlsIdentity

CLOSE_S = 1.0


@dataclass(frozen=True)
class Upstream:
    joining: Joining
    sources: Sources
    refresh: Refresh
    update: Update
    reporting: Reporting
    certificate_ends: CertificateEnds
    second_look: SecondLook
    relay: Relay
    peer_listener: PeerListener
    storage_listener: StorageListener
    peer_rounds: PeerRounds
    neighbour_heads: NeighbourHeads

    @property
    def tasks(self) -> tuple[Callable[[], Awaitable[None]], ...]:
        """Each runs until it is cancelled."""
        return (
            self.joining.run,
            self.refresh_heads,
            self.bring_up,
            self.prepare,
            self.look_again,
            self.report,
            self.answer_peers,
            self.keep_published,
            self.ask_peers,
            self.relay_heads,
            self.certificate_ends.run,
        )

    async def aclose(self) -> None:
        """Kept connections go when the agent does, once no task uses them."""
        with trio.CancelScope(shield=True), trio.move_on_after(CLOSE_S):
            await self.sources.aclose()

    def wake(self) -> None:
        """An operator says that it is worth asking now (rules P14, K38)."""
        self.joining.wake()
        self.sources.attend()
        self.update.wake()

    async def refresh_heads(self) -> None:
        """Once we are a member."""
        await self.joining.joined.wait()
        await self.refresh.run()

    async def relay_heads(self) -> None:
        """Likewise."""
        await self.joining.joined.wait()
        await self.relay.load()
        await self.neighbour_heads.run()

    async def look_again(self) -> None:
        """Likewise."""
        await self.joining.joined.wait()
        await self.second_look.run()

    async def report(self) -> None:
        """Likewise."""
        await self.joining.joined.wait()
        await self.reporting.run()

    async def answer_peers(self) -> None:
        """Likewise."""
        await self.relay.load()
        await self.joining.joined.wait()
        await self.peer_listener.run()

    async def keep_published(self) -> None:
        """Likewise."""
        await self.joining.joined.wait()
        await self.storage_listener.run()

    async def ask_peers(self) -> None:
        """Likewise."""
        await self.joining.joined.wait()
        await self.peer_rounds.run()

    async def bring_up(self) -> None:
        """Likewise. What waits in slots, or came as a file, needs no source."""
        await self.joining.joined.wait()
        await self.update.run()

    async def prepare(self) -> None:
        """Likewise."""
        await self.joining.joined.wait()
        await self.update.preparation.run()


def build(
    node: RunningNode, opened: OpenedStore, local: Local, uniform: Callable[[float, float], float] = random.uniform
) -> Upstream:
    """`uniform` draws the chances by which nodes that failed together do not come back together."""
    paths = opened.store.paths
    identity = IdentityFile(paths.identity, paths.temporary, opened.root.disk, credential(NODE_KEY))
    sources = Sources(node, identity.identity, uniform)
    relay = Relay(node, _relay_store(node, opened), sources.peers)
    peer_api = PeerApi(node, sources.peers, Shelf(node, relay), Standings(node, relay))
    peer_listener = PeerListener(node, identity, sources.peers, peer_api)
    taking = FileTaking(node, _published_files(node, opened), paths.temporary, SignedTerms(node), relay.followed_bundle)
    storage_api = PublishedFilesApi(node, taking, _writers(node))
    copying = Replicating(node, taking, lambda: identity.identity, lambda: storage_api.brought_at, uniform)
    storage_listener = StorageListener(node, identity, storage_api, copying.run, copying.describe_sources)
    admission = Admission(node)
    update = Update(
        node,
        sources,
        admission,
        TrustChain(node, admission, relay.take_bundle),
        local.validators,
        put_offs=PutOffs(uniform),
    )
    update.fetching.keep_for_others = relay.keep_own
    ends = CertificateEnds(node, identity)
    local.front.begin_to_ask(update, sources, relay, ends.endings, storage_listener.report)
    local.probation.ask_way_by(Way(node, sources).is_open)

    async def follow_renewal(shown: TlsIdentity) -> None:
        await sources.renew(shown)
        await peer_listener.show()
        await storage_listener.show()

    return Upstream(
        Joining(node, update, identity, uniform, follow_renewal, sources.addresses),
        sources,
        Refresh(node, sources, update, Showing(node)),
        update,
        Reporting(
            node,
            sources,
            opened.views,
            lambda: local.services.notified,
            uniform,
            update.preparation.votes,
            local.validators.sees,
            storage_listener.held_files,
            lambda: update.activating.origins,
            relay.news,
        ),
        ends,
        SecondLook(sources, update.trust, uniform),
        relay,
        peer_listener,
        storage_listener,
        PeerRounds(node, sources, update, uniform),
        NeighbourHeads(node, sources, relay, uniform),
    )


def _writers(node: RunningNode) -> frozenset[str]:
    return frozenset(fingerprint(writer.certificate) for writer in node.settings.storage.writers)


def _published_files(node: RunningNode, opened: OpenedStore) -> PublishedFiles:
    at, limits = node.settings.storage, node.settings.limits.documents()
    return PublishedFiles(opened.store.paths.published_files, opened.root.disk, at.most_bytes, at.most_files, limits)


def _relay_store(node: RunningNode, opened: OpenedStore) -> RelayStore:
    paths, peers = opened.store.paths, node.settings.peers
    bounds = RelayBounds(peers.relay_bytes, peers.relay_files)
    limits = node.settings.limits.documents()
    return RelayStore(paths.relay, opened.root.disk, paths.temporary, bounds, limits)
