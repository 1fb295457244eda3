"""Large values that nobody needs any more, let go of in slices, in a thread.

    class Model(ReleasedInSlices)    what such a value alone holds goes in slices, once nobody holds the value
    let_go(values)                   the same of what a caller gives up
    releasing()                      while it is open somebody takes the slices, by `release` (interpreter.py)

Python frees a value with its last reference, and at once with it all that it alone has held, while no other thread
runs. The declared state of 10,000 nodes is a million objects: whoever happened to replace the last name for it, a
change, the publisher or a join, kept everybody waiting for 50 ms, in which the event loop answered nobody. So a large
value hands on what it holds when it goes, which costs nothing, and a thread takes that apart: SLICE objects at a time,
and between two slices whoever waits may run.

It is the value itself that hands it on, in `__del__`, and nobody who has held it: who is the last one of the memory of
states, the publisher's, a plan's and a rollout's is decided by which of them is the quickest. What others hold as well
is left alone: of it the thread lets go of a reference.

Where nobody takes the slices, in a command or a test, all goes at once, as ever; so it does beyond MOST values that
wait, or they would pile up where they come faster than they go.

Rejected: to keep each former state for a while by its place in the memory of states, which others outlive; to free less
by persistent trees (next_model.py says why); to do it on the event loop, where each slice would be a turn of it.
"""

import sys
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

SLICE = 256  # objects that are let go of at a time: of resources a millisecond or two
LARGE = 512  # what holds less goes at once
MOST = 64  # values that wait
_CONTAINERS = (dict, list, tuple, set, frozenset)
_HELD_HERE = 2  # references to what nobody else holds: a name, and the argument of the question

_waiting: deque[list[object]] = deque()
_open: list[None] = []  # one for each that is open


class ReleasedInSlices:
    """Of whom nothing is asked but to go. At the end of the program it may outlive what is named here."""

    def __del__(self) -> None:
        if _open:
            let_go(vars(self).values())


def let_go(values: Iterable[object]) -> None:
    """Of these, as far as nobody else holds them. From any thread, and from `__del__`."""
    if not _open or len(_waiting) >= MOST:
        return
    handed_on = list(values)
    if any(map(_is_large, handed_on)):
        _waiting.append(handed_on)


@contextmanager
def releasing() -> Iterator[None]:
    """Until the end of the block somebody takes the slices; what waits then goes."""
    _open.append(None)
    try:
        yield
    finally:
        _open.pop()
        release()


def release() -> None:
    """Of all that waits."""
    for _ in slices():
        pass


def slices() -> Iterator[None]:
    """After each, of as many objects as SLICE at most."""
    while _waiting:
        yield from _take_apart(_waiting.popleft())


def _take_apart(left: list[object]) -> Iterator[None]:
    """Of large containers, and of those one level down, that are held here alone: first the container goes with the
    names in it, then what it held. A fleet's peers are ten thousand small tuples: each goes as one object.
    """
    while left:
        value: object = left.pop()
        if not isinstance(value, _CONTAINERS) or sys.getrefcount(value) > _HELD_HERE:
            continue
        held = list(value.values()) if isinstance(value, dict) else list(value)
        value = None
        if len(held) < LARGE:
            left.extend(filter(_is_large, held))
            held.clear()  # else they would be held twice
        while held:
            del held[-SLICE:]
            yield


def _is_large(value: object) -> bool:
    return isinstance(value, _CONTAINERS) and len(value) >= LARGE


def are_waiting() -> bool:
    return bool(_waiting)
