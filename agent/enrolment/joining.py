"""How a node becomes a member, and stays the same one (rules A3, J12, K14, K29, X8; protocol.md 1).

    token        from its file; without one nothing is asked
    handshake    join_request.py: the coordinator's chain first, then the token
    grant        apply_grant.py: the roots are pinned, the bundles followed, the documents taken
    certificate  renewal.py: renewed in time, by the same request

A crash anywhere repeats safely: what is pinned stays, and a member asks again without a token. Why an attempt failed is
in the status, and a new attempt is made as soon as a token, a CA or a bundle is put where it is looked for.
"""

import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import trio

from agent.config.token import BadTokenFileError, JoinToken, find_tokens
from agent.enrolment.apply_grant import Granting
from agent.enrolment.identity import IdentityFile
from agent.enrolment.join_request import Handshake, coordinators
from agent.enrolment.renewal import Renewal
from agent.enrolment.start import is_member
from agent.state import root_pinning
from agent.state.join_codes import EXPECTED, TOKEN_CODES, code_of, detail_of, is_refusal
from agent.state.join_failure import JoinFailure
from agent.state.node import RunningNode
from agent.state.root_pinning import RootsNotPinnedError
from agent.update.update import Update
from wire.addresses import AddressBook
from wire.backoff import LEAST_S, BackOff
from wire.certificate import BadCertificateError, KeyPair
from wire.client import ClientError
from wire.endpoint import Endpoint
from wire.logs import log
from wire.tls_contexts import TlsIdentity

LOOK_EVERY_S = 1.0  # whether a file has been put there
LOOK_AGAIN_S = 15.0


@dataclass
class Joining:
    node: RunningNode
    update: Update
    identity: IdentityFile
    uniform: Callable[[float, float], float]
    renewed: Callable[[TlsIdentity], Awaitable[None]]
    addresses: AddressBook
    joined: trio.Event = field(default_factory=trio.Event)
    _refused: set[str] = field(default_factory=set)  # SHA-256 of tokens that are good for nothing
    _woken: trio.Event = field(default_factory=trio.Event)

    def __post_init__(self) -> None:
        self.membership = self.node.membership
        self.handshake = Handshake(self.node)
        self.granting = Granting(self.node, self.update)
        self.renewal = Renewal(self.node, self.identity, self.handshake, self.renewed, self.addresses)

    async def run(self) -> None:
        """Until the node is a member; then its certificate is renewed in time. Until cancelled.

        A file that changes all the time, or who wakes us in a loop, makes an attempt a second at most.
        """
        back_off = BackOff(self.uniform, cap_s=float(self.node.settings.intervals.backoff_cap_s))
        while not self._is_member():
            seen, woken = self._stamps(), self._woken
            with trio.move_on_after(await self._attempt(back_off)):
                await trio.sleep(LEAST_S)
                await self._reason_to_try(seen, woken)
                back_off.note_success()
        self.membership.complete()
        await self._key_is_held()
        self.membership.note_success()
        self.node.tell()
        self.joined.set()
        await self.renewal.run(back_off)

    def wake(self) -> None:
        """A hint that it is worth trying now (rules P14)."""
        self._woken.set()
        self._woken = trio.Event()

    async def _key_is_held(self) -> None:
        """A member whose credential was not given, or is another one, speaks to nobody, and says so (rules L40)."""
        while True:
            try:
                await self._own_pair()
            except BadCertificateError as error:
                self._note_failure(error, LOOK_AGAIN_S)
            else:
                return
            await trio.sleep(LOOK_AGAIN_S)

    def _is_member(self) -> bool:
        return is_member(self.node.store, self.node.holdings)

    # ---- one attempt after the other

    async def _attempt(self, back_off: BackOff) -> float:
        """One try with whatever there is; the seconds until the next."""
        try:
            asked = await self._try()
        except EXPECTED as error:
            retry_after_s = error.retry_after_s if isinstance(error, ClientError) else None
            wait_s = back_off.note_failure(retry_after_s)
            self._note_failure(error, wait_s)
            return wait_s
        self.membership.note_success()
        return (0.0 if self._is_member() else LEAST_S) if asked else LOOK_AGAIN_S

    async def _try(self) -> bool:
        """Whether there was anything to try with; it has succeeded then."""
        if self.node.settings.coordinator is None:
            await self._own_pair()  # sources may ask for a certificate, too
            await self.granting.install()
            return True
        token = await self._token()
        if token is None and not await self._may_be_member():
            self.membership.note_nothing_to_try()
            return False  # rules K29
        try:
            if self.node.store.enrolment is None:
                root_pinning.check_pinned(self.node.settings.trust, token)
            self.membership.note_attempt()
            self.node.tell()
            await self._join(token)
        except (ClientError, RootsNotPinnedError) as error:
            if token is not None and code_of(error) in TOKEN_CODES:
                self._refused.add(_digest(token.text))
            raise
        return True

    async def _may_be_member(self) -> bool:
        """Roots are pinned, and there is a key that may have been admitted: then no token is needed (rules J12)."""
        return self.node.store.enrolment is not None and await self.node.threads.read(self.identity.is_begun)

    async def _token(self) -> JoinToken | None:
        """The first that was not refused yet; where all were, the first. BadTokenFileError where there is none."""
        found = await self.node.threads.read(find_tokens, self.node.settings.token_files())
        if found.trouble and not found.tokens and not await self._may_be_member():
            raise BadTokenFileError(found.trouble)
        fresh = (token for token in found.tokens if _digest(token.text) not in self._refused)
        return next(fresh, found.tokens[0] if found.tokens else None)

    async def _join(self, token: JoinToken | None) -> None:
        """One attempt at each coordinator in turn, until one grants. A refusal is raised rather than a silence."""
        settings = self.node.settings
        assert settings.coordinator is not None  # noqa: S101 - the caller looked
        pair = await self.node.threads.write(self.identity.candidate, settings.node, self.node.now())
        failed: list[Exception] = []
        async with coordinators(self.node, self.addresses) as client:
            for url in settings.coordinator.join_urls or settings.coordinator.urls:
                try:
                    endpoint = Endpoint.parse(url, configured=True)
                    grant = await self.handshake.ask(client, endpoint, pair, token.text if token else None)
                    await self.granting.accept(grant, token)
                    await self.node.threads.write(self.identity.admit)
                except EXPECTED as error:
                    log.debug("no grant", url=url, code=code_of(error), detail=detail_of(error))
                    failed.append(error)
                else:
                    return
        raise next(filter(is_refusal, failed), failed[-1])

    async def _own_pair(self) -> KeyPair:
        return await self.node.threads.write(self.identity.ensure, self.node.settings.node, self.node.now())

    def _note_failure(self, error: Exception, wait_s: float) -> None:
        now = self.node.now()
        failure = JoinFailure(code_of(error), detail_of(error), is_refusal(error), now, now + wait_s)
        self.membership.note_failure(failure)
        self.node.counters.add("joins_failed")
        log.warning("not joined", code=failure.code, detail=failure.detail, again_in_s=round(wait_s, 1))
        self.node.tell()

    async def _reason_to_try(self, seen: object, woken: trio.Event) -> None:
        """A file was put there since then, or somebody has said so."""
        while not woken.is_set() and self._stamps() == seen:
            with trio.move_on_after(LOOK_EVERY_S):
                await woken.wait()

    def _stamps(self) -> list[object]:
        """They differ once a file that a join rests on is another one. A few stats of local files: no thread's work."""
        settings = self.node.settings
        authority = settings.coordinator.ca_file if settings.coordinator else None
        return [_stamp(file) for file in (*settings.token_files(), authority, settings.trust.bundle_file) if file]


def _stamp(file: Path) -> object:
    try:
        found = file.stat()
    except OSError as error:
        return error.errno
    return found.st_ino, found.st_mtime_ns, found.st_ctime_ns


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
