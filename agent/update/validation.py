"""What local services say of candidates before they become active: their validators may keep scopes out (rules S67)."""

from collections.abc import Sequence
from dataclasses import dataclass

from agent.files.projection import ProjectedScope
from agent.services.validators import ValidatorRefusal, Validators
from agent.state.node import RunningNode
from agent.state.plan import FIRST
from agent.state.view import Grade
from agent.update.admission import VALIDATOR_REFUSED, Admission, AskedDocument, Candidate
from agent.update.retry_schedule import PutOffs, RetryKey, Why

STEP = 12  # after all that the verifier asks


@dataclass(frozen=True)
class Validation:
    """`put_offs` has what was kept out before anything of it is written: a disk that refuses offers nothing anew."""

    node: RunningNode
    admission: Admission
    validators: Validators
    put_offs: PutOffs

    async def accepted(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Those that no validator keeps out. One that refuses keeps out what has changed of its service's scopes."""
        left = list(candidates)
        while left:
            generation = self.node.store.watch.generation + 1
            active = self.node.holdings.view.projected(self.node.now())
            refusal = await self.validators.refusal(map(self._projected, left), active, generation)
            if refusal is None:
                break
            left = await self._without(left, refusal)
        return left

    async def _without(self, candidates: list[Candidate], refusal: ValidatorRefusal) -> list[Candidate]:
        why = Why.VALIDATOR if refusal.judged else Why.TIMED_OUT
        kept_out = [one for one in candidates if one.scope in refusal.scopes]
        for one in kept_out:
            envelope = one.verified.envelope
            self.put_offs.put_off(RetryKey.of_document(envelope), why)
            asked = AskedDocument(one.verified.kind, refusal.service, one.scope)
            await self.node.threads.write(one.slot.drop)
            await self.admission.record(asked, envelope, STEP, VALIDATOR_REFUSED, refusal.detail)
        if any(one.scope in FIRST for one in kept_out):
            return []  # the others were judged by what is not going to be
        return [one for one in candidates if one not in kept_out]

    def _projected(self, candidate: Candidate) -> ProjectedScope:
        one, store = candidate.verified, self.node.store
        epoch, version = one.envelope.version
        expires_at = one.envelope.expires_at
        return ProjectedScope(
            one.scope,
            epoch,
            version,
            one.content_hash,
            expires_at,
            str(Grade.FRESH),
            one.state,
            lambda name: store.get(f"sha256:{one.state[name].sha256}"),
        )
