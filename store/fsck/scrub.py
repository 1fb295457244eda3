"""Stored sections are hashed again in rounds (threats D-26): damage is found before it is asked for."""

from itertools import islice

from snapshot.frozen import frozen
from store.base import blobs
from store.base.environment import Environment, LmdbTransaction
from store.base.errors import StoreError
from store.base.journal import Happened
from store.fsck.fallback import leave_damaged

BLOBS_AT_ONCE, BYTES_AT_ONCE = 64, 8 << 20  # whichever is reached first: nobody waits long for a step


@frozen
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
            seen, damaged, done = self._look(transaction, most)
        happened: dict[str, Happened] = {}
        if damaged:
            with self._environment.write() as transaction:
                happened = leave_damaged(transaction, damaged, now)
        self._position = b"" if done else seen[-1] + b"\xff\xff\xff\xff"
        return Scrubbed(len(seen), len(damaged), happened, done)

    def _look(self, transaction: LmdbTransaction, most: int) -> tuple[list[bytes], list[bytes], bool]:
        """The digests of a step, those of damaged blobs among them, and whether these were the last."""
        seen: list[bytes] = []
        damaged: list[bytes] = []
        size = 0
        for digest in islice(blobs.digests(transaction, self._position), most):
            seen.append(digest)
            try:
                size += len(blobs.get(transaction, digest))
            except StoreError:
                damaged.append(digest)
            if size >= BYTES_AT_ONCE:
                return seen, damaged, False
        return seen, damaged, len(seen) < most
