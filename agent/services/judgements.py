"""What validators have said of states that are to come, so that none is asked twice about the same one.

    Judgements            of candidates, kept while they are listed and a while longer
    ActivationAnswers     of one activation: what was accepted of candidates counts, a refusal is asked again

A state is what a validator is shown: the contents of the scopes that its service lives by, and what is revoked in
them. Versions are no part of it, so a renewal of equal content is no new state. A "no" stands as long as the state
does: asking again gives the same answer, and costs the service's machine. A validator that came to no judgement (too
slow, killed, not started) is asked again, seldom, since another run may end otherwise.

A release comes with a head that lists no candidate any more, and what was accepted has to count there: so what nobody
asks about is forgotten only after a while. Rejected: to keep it over a restart. The operator may have changed the
validator, and that is what he restarts the agent for.
"""

from collections.abc import Callable
from dataclasses import field
from typing import Protocol

import trio

from snapshot.frozen import frozen, mutable
from wire.backoff import BackOff

AGAIN_S, AGAIN_MOST_S = 300.0, 3600.0  # after no judgement
KEPT_S = 600.0  # once nobody asks about it any more
MOST = 256


@frozen
class SeenState:
    """What a validator of a service is shown."""

    service: str
    contents: frozenset[tuple[str, str]]
    revoked: frozenset[str]


@frozen
class ValidatorAnswer:
    """`refusal` is empty for a yes; it is bounded and holds what the command said first. `judged`: it ran to its end,
    and that is its answer.
    """

    refusal: str = ""
    judged: bool = True


class KnownAnswers(Protocol):
    def find(self, seen: SeenState) -> ValidatorAnswer | None:
        """None: it is to be asked."""

    def note(self, seen: SeenState, answer: ValidatorAnswer) -> None: ...


@mutable
class _KeptAnswer:
    answer: ValidatorAnswer
    again_at: float
    back_off: BackOff
    left_at: float | None = None  # since nobody asks about it


@mutable
class Judgements:
    """`now` is trio's clock; `uniform` spreads nodes whose validators failed together."""

    uniform: Callable[[float, float], float]
    now: Callable[[], float] = trio.current_time
    _kept: dict[SeenState, _KeptAnswer] = field(default_factory=dict)
    _asked: set[SeenState] = field(default_factory=set)  # in the round that is running

    def find(self, seen: SeenState) -> ValidatorAnswer | None:
        self._asked.add(seen)
        kept = self._kept.get(seen)
        return kept.answer if kept is not None and kept.again_at > self.now() else None

    def note(self, seen: SeenState, answer: ValidatorAnswer) -> None:
        before = self._kept.pop(seen, None)
        back_off = before.back_off if before is not None else BackOff(self.uniform, AGAIN_S, AGAIN_MOST_S)
        again_at = float("inf") if answer.judged else self.now() + back_off.note_failure()
        self._kept[seen] = _KeptAnswer(answer, again_at, back_off)

    def accepts(self, seen: SeenState) -> bool:
        kept = self._kept.get(seen)
        return kept is not None and not kept.answer.refusal

    def end_round(self) -> None:
        """What was not asked about in it, nobody asks about any more."""
        now = self.now()
        for seen, kept in list(self._kept.items()):
            if seen in self._asked:
                kept.left_at = None
            elif kept.left_at is None:
                kept.left_at = now
            elif now - kept.left_at > KEPT_S:
                del self._kept[seen]
        for seen in list(self._kept)[: max(0, len(self._kept) - MOST)]:
            del self._kept[seen]
        self._asked.clear()

    def rest_s(self) -> float:
        """Until one that came to no judgement is asked again, at most AGAIN_MOST_S; 0 where it is time."""
        again_at = min((kept.again_at for kept in self._kept.values() if kept.left_at is None), default=float("inf"))
        return min(AGAIN_MOST_S, max(0.0, again_at - self.now()))


@mutable
class ActivationAnswers:
    judgements: Judgements
    _accepted: set[SeenState] = field(default_factory=set)

    def find(self, seen: SeenState) -> ValidatorAnswer | None:
        return ValidatorAnswer() if seen in self._accepted or self.judgements.accepts(seen) else None

    def note(self, seen: SeenState, answer: ValidatorAnswer) -> None:
        if not answer.refusal:
            self._accepted.add(seen)
