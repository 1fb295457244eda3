"""What the demonstration claims, each claim looked at: it holds, or the demonstration ends there."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

LOOK_EVERY_S = 0.15

Seen = TypeVar("Seen")


class NotProved(Exception):
    """A claim that did not hold; the text is the claim, and what was seen."""


@dataclass
class Proof:
    """`say` shows each claim as it is proved; `look` is called while something is waited for.

    `claims`: what was proved, by the step that proved it.
    """

    say: Callable[[str], None]
    look: Callable[[], None]
    claims: dict[str, list[str]] = field(default_factory=dict)
    step: str = ""

    def begin(self, step: str) -> None:
        self.step = step
        self.claims[step] = []

    def that(self, claim: str, holds: object, seen: object = "") -> None:
        if not holds:
            raise NotProved(f"{claim}; seen: {seen}" if seen != "" else claim)
        self.claims[self.step].append(claim)
        self.say(claim)

    def comes_true(self, claim: str, holds: Callable[[], object], within_s: float, seen: Callable[[], object]) -> None:
        self.wait(claim, holds, within_s, seen)
        self.that(claim, True)

    def wait(self, what: str, holds: Callable[[], Seen], within_s: float, seen: Callable[[], object]) -> Seen:
        """The same without a claim: something that has to come first. What `holds` answered."""
        end = time.monotonic() + within_s
        while not (found := holds()):
            if time.monotonic() > end:
                raise NotProved(f"{what} (waited {within_s:g} s); seen: {seen()}")
            self.look()
            time.sleep(LOOK_EVERY_S)
        return found
