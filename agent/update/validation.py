"""What local services say of candidates before they become active: their validators may keep scopes out (rules S67).

accept      of documents that are to be run: those that may be
objection   of documents that a head says are coming: why they could not be run, as things stand
"""

from collections.abc import Sequence
from dataclasses import dataclass

from agent.files.layout import ProjectedScope
from agent.services.judgements import ActivationAnswers, Judgements, KnownAnswers
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
    judgements: Judgements

    async def accept(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Those that no validator keeps out. One that refuses keeps out what has changed of its service's scopes; those
        that have accepted what is left as it is are not asked again.
        """
        left, known = list(candidates), ActivationAnswers(self.judgements)
        while left:
            refusal = await self._refusal(left, known)
            if refusal is None:
                break
            left = await self._without(left, refusal)
        return left

    async def objection(self, candidates: Sequence[Candidate]) -> ValidatorRefusal | None:
        """Of the first validator that does not accept all of them together, over what is active now."""
        return await self._refusal(candidates, self.judgements)

    async def _refusal(self, candidates: Sequence[Candidate], known: KnownAnswers) -> ValidatorRefusal | None:
        if not self.validators.validators:
            return None
        generation = self.node.store.watch.generation + 1
        active = self.node.holdings.view.projected_scopes(self.node.now())
        return await self.validators.refusal(map(self._projected_scope, candidates), active, generation, known)

    async def _without(self, candidates: list[Candidate], refusal: ValidatorRefusal) -> list[Candidate]:
        why = Why.VALIDATOR if refusal.judged else Why.TIMED_OUT
        kept_out = [candidate for candidate in candidates if candidate.scope in refusal.scopes]
        for kept in kept_out:
            envelope = kept.verified.envelope
            self.put_offs.put_off(RetryKey.of_document(envelope), why)
            asked = AskedDocument(kept.verified.kind, refusal.service, kept.scope)
            await self.node.threads.write(kept.slot.drop)
            await self.admission.record(asked, envelope, STEP, VALIDATOR_REFUSED, refusal.detail)
        if any(kept.scope in FIRST for kept in kept_out):
            return []  # the others were judged by what is not going to be
        return [candidate for candidate in candidates if candidate not in kept_out]

    def _projected_scope(self, candidate: Candidate) -> ProjectedScope:
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
            self.node.holdings.revocations.service_ids,
        )
