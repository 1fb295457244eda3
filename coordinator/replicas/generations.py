"""How heads are numbered: one that is published begins a block of numbers, and the rest of the block is its own.

While the database is away, the head that is out is signed again (signed_again.py), under the next numbers of its block.
What is published has none of these, whatever it is made from: the swap that publishes (publishing/heads.py) begins the
next block, and refuses a number within the one that is out. So the block is reserved in the database from the moment at
which its head is there, by that alone. No replica has to have been asked, none has to give anything back, and one that
was cut off can sign nothing that a node would take in place of what another one has published since.

Example. Head 7000 is out. The database goes; 7001, 7002 and 7003 say what it says, with later dates. The database is
back, and the next head is 8000.

A head from before these blocks, 17 say, has none, and is not signed again.

Rejected:

- Numbers that each replica reserves for itself, in rows of its own: what is published has to be above all of them, so
  each publication would void them, and each would be a row more to write.
- The next free number, whichever it is: a replica that is cut off cannot know that it has been taken.
"""

Pair = tuple[int, int]  # (authority_epoch, generation)
BLOCK = 1_000
MOST_REPEATS = BLOCK - 1


def next_generation(generation: int, published: int) -> int:
    """Of a node's next head. `generation`: of its entry; `published`: of the head that is out, or 0."""
    least = max(generation, published + 1)
    return -(-least // BLOCK) * BLOCK


def repeats(published: Pair, other: Pair) -> bool:
    """Whether `other` is the head that was published, signed again."""
    number = other[1] - published[1]
    return other[0] == published[0] and published[1] % BLOCK == 0 and 0 < number < BLOCK
