"""What local services say of candidates before they become active: their validators may keep scopes out (rules S67)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agent.admission import VALIDATOR_REFUSED, Admission, Asked, Candidate
from agent.node import Node
from agent.patterns import matches
from agent.plan import FIRST
from agent.projection import ProjectedScope
from agent.validators import Refusal, Validators
from agent.view import Grade

STEP = 12  # after all that the verifier asks


@dataclass(frozen=True)
class Validation:
    """`on_kept_out` is told the scope and snapshot id of each candidate that is kept out."""

    node: Node
    admission: Admission
    validators: Validators
    on_kept_out: Callable[[str, str], None]

    async def accepted(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """The candidates that no validator keeps out. One that refuses keeps out the scopes of its service."""
        left = list(candidates)
        while left:
            generation = self.node.store.watch.generation + 1
            active = self.node.holdings.view.projected(self.node.now())
            refusal = await self.validators.refusal(map(self._projected, left), active, generation)
            if refusal is None:
                break
            left = await self._without(left, refusal)
        return left

    async def _without(self, candidates: list[Candidate], refusal: Refusal) -> list[Candidate]:
        patterns = next(one.scopes for one in self.validators.validators if one.service == refusal.service)
        kept_out = [one for one in candidates if matches(patterns, one.scope)]
        for one in kept_out:
            envelope = one.verified.envelope
            asked = Asked(one.verified.kind, refusal.service, one.scope)
            await self.node.threads.write(one.slot.drop)
            await self.admission.record(asked, envelope, STEP, VALIDATOR_REFUSED, refusal.detail)
            self.on_kept_out(one.scope, envelope.snapshot_id)
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
