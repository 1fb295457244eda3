"""In which order tests are run, and which of them one after the other by the same process.

A file stays with one worker, in its order: what its tests share is made once. Journeys go first, since they wait for
timers of real programs while others work: begun last, a run would end with one that waits and nobody beside it. Where
the tests of a journey share nothing, each goes to whoever is free.
"""

from collections import Counter
from collections.abc import Sequence
from functools import cache

from tests.citations import ROOT

_JOURNEYS = "tests/journeys/"
_SHARED = ('scope="module"', 'scope="session"')


def sequence(node_ids: Sequence[str]) -> list[int]:
    """Places: journeys as they stand, then the files that have the most tests. A file's own order stays."""
    counts = Counter(map(_file, node_ids))

    def rank(place: int) -> tuple[int, int]:
        node_id = node_ids[place]
        return (0, 0) if node_id.startswith(_JOURNEYS) else (1, -counts[_file(node_id)])

    return sorted(range(len(node_ids)), key=rank)


def unit(node_id: str) -> str:
    """What is given to a worker as a whole: a file, or one test of a journey."""
    file = _file(node_id)
    return node_id if file.startswith(_JOURNEYS) and shares_nothing(file) else file


@cache
def shares_nothing(file: str) -> bool:
    """No fixture of its own is made once for all its tests."""
    text = (ROOT / file).read_text()
    return not any(word in text for word in _SHARED)


def _file(node_id: str) -> str:
    return node_id.partition("::")[0]
