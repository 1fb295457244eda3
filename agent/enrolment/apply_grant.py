"""What a join gives, made durable: the roots pinned, the bundles followed, the documents taken (rules J15, A3).

The roots stand outside of the store before the first bundle is activated; what comes after goes the way of every
update, so that a grant is trusted no further than its signatures.
"""

from dataclasses import dataclass
from pathlib import Path

from agent.base.byte_source import Chunks
from agent.config.token import JoinToken
from agent.state import root_pinning
from agent.state.join_codes import NotGrantedError, UnusableFileError
from agent.state.node import RunningNode
from agent.state.origins import Giver
from agent.state.own_bounds import OwnRefusalError
from agent.update.update import Update
from snapshot.bundle import SCOPE as TRUST_BUNDLE
from snapshot.container import ChunkParts
from snapshot.reasons import Rejected
from snapshot.verify import Verified, follow
from wire.logs import log
from wire.messages import JoinGrant

BUNDLE_BYTES = 2 << 20


@dataclass(frozen=True)
class Granting:
    node: RunningNode
    update: Update

    async def accept(self, grant: JoinGrant, token: JoinToken | None) -> None:
        """Verified and durable, or NotGrantedError, OtherRootsError (rules J15)."""
        bundles, others = root_pinning.split_grant(grant.documents, self.node.holdings.holder.limits)
        await self._trust(bundles, token, "join")
        log.info("joined", outcome=grant.outcome, coordinator=grant.coordinator_id)
        for kind, data in others:
            try:
                await self.update.importing.take(Chunks(data), kind, "join")
            except (Rejected, OwnRefusalError):
                continue  # recorded; the head will name it again

    async def _trust(self, bundles: list[bytes], token: JoinToken | None, source: str) -> None:
        """The roots are pinned before the bundle is activated: where they stand, there is no second first use."""
        node = self.node
        if not bundles:
            raise NotGrantedError("the grant has no trust bundle")
        if node.store.enrolment is None:
            await self._pin(bundles, token)
        await node.reload()
        held = node.holdings.bundle
        limits = node.holdings.holder.limits
        newer = [data for data in bundles if held is None or root_pinning.version_of(data, limits) > held.version]
        await self.update.trust.walk(newer, Giver.by_name(source))
        if TRUST_BUNDLE not in node.holdings.kept.marks:
            raise NotGrantedError(f"this node believes no trust bundle that it was given ({source})")

    async def _pin(self, bundles: list[bytes], token: JoinToken | None) -> None:
        node, limits = self.node, self.node.holdings.holder.limits
        trust = node.settings.trust
        installed = _read_installed_bundle(trust.bundle_file)
        roots, trusted_by = root_pinning.roots_for(bundles[0], trust, token, installed, limits)
        node.reader.roots = roots
        await node.reload()
        run = follow([ChunkParts([data], limits) for data in bundles], node.holder(), now=node.now())
        verified = await node.threads.verify(next, run, None)
        if not isinstance(verified, Verified):
            raise NotGrantedError("the first trust bundle is not valid yet")
        enrolled = root_pinning.enrolment(node.settings.node.node_id, verified, roots, trusted_by, node.now())
        await node.threads.write(node.store.enrol, enrolled)
        node.reader.enrolled = enrolled
        say = log.warning if trusted_by == root_pinning.FIRST_USE else log.info
        say("root keys pinned", trusted_by=trusted_by, root_key_ids=sorted(enrolled.root_keys))

    async def install(self) -> None:
        """Without a coordinator: the first bundle is a file (rules K3). UnusableFileError too."""
        installed = _read_installed_bundle(self.node.settings.trust.bundle_file)
        if installed is None:
            raise NotGrantedError("trust.bundle_file is not set")
        await self._trust([installed], None, "installed bundle")


def _read_installed_bundle(file: Path | None) -> bytes | None:
    if file is None:
        return None
    try:
        data = file.read_bytes()
    except OSError as error:
        raise UnusableFileError(f"trust.bundle_file {file}: {error.strerror}") from error
    if len(data) > BUNDLE_BYTES:
        raise UnusableFileError(f"trust.bundle_file {file} has more than {BUNDLE_BYTES} bytes")
    return data
