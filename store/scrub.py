"""Stored sections are hashed again in rounds (threats D-26): damage is found before it is asked for."""

from dataclasses import dataclass
from itertools import islice

from store import blobs
from store.environment import Environment
from store.fallback import leave_damaged
from store.journal import Happened

BLOBS_AT_ONCE = 64


@dataclass(frozen=True)
class Scrubbed:
    """What one step hashed. `happened` tells each scope that had to leave its active document."""

    blobs: int
    damaged: int
    happened: dict[str, Happened]
    done: bool  # the round is over


class Scrubber:
    """Rounds over the blobs of an open store."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._position = b""

    def step(self, now: float, most: int = BLOBS_AT_ONCE) -> Scrubbed:
        """Hash up to `most` blobs; scopes that refer to a damaged one fall back (rules L34)."""
        with self._environment.read() as transaction:
            seen = list(islice(blobs.digests(transaction, self._position), most))
            damaged = [digest for digest in seen if not blobs.is_whole(transaction, digest)]
        happened: dict[str, Happened] = {}
        if damaged:
            with self._environment.write() as transaction:
                happened = leave_damaged(transaction, damaged, now)
        done = len(seen) < most
        self._position = b"" if done else seen[-1] + b"\xff\xff\xff\xff"
        return Scrubbed(len(seen), len(damaged), happened, done)
