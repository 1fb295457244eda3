"""In which order tests are run, and which of them one after the other by the same process.

A file stays with one worker, in its order: what its tests share is made once. Journeys wait for timers of real
programs, for three quarters of their time: so three workers of four take those first and the fourth all else, and the
processors have work throughout. Were all of them at journeys first, a third of the processors' time would go unused
for as long as there are any; begun last, a run would end with one that waits and nobody beside it; with two workers
of three a tenth of it to a fifth went unused, by how fast the machine was, since waits last as long on any. Of those
three workers two take the long journeys first, which wait the most, and one the short ones: were all at the long ones
first, a fifth of the processors' time would go unused meanwhile. Where the tests of a journey share nothing, each
goes to whoever is free. The house's own rules are one unit: all of them read the whole source; so are the files that
ask one S3 server. Then the files that take longest, of which some have one test: a model that is begun last keeps one
worker while the others have nothing left.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from tests.citations import ROOT

_JOURNEYS = "tests/journeys/"
HOUSE = "tests"
LONG = (
    "tests/agent/test_reaction_retries.py",
    "tests/coordinator/test_gates.py",
    "tests/coordinator/test_instead.py",
    "tests/coordinator/test_node_api.py",
    "tests/coordinator/test_rollout_beside.py",
    "tests/coordinator/test_rollout_replicas.py",
    "tests/coordinator/test_rollout.py",
    "tests/coordinator/test_servers_failover.py",
    "tests/coordinator/test_upkeep.py",
    "tests/snapshot/test_verify_properties.py",
    "tests/coordinator/test_shared_documents.py",
    "tests/agent/test_preparing.py",
    "tests/coordinator/test_gates_model.py",
    "tests/coordinator/test_peer_recovery.py",
    "tests/agent/test_running.py",
    "tests/coordinator/test_change_impact.py",
    "tests/coordinator/test_run.py",
    "tests/coordinator/test_moving.py",
    "tests/store/test_probation.py",
    "tests/agent/test_source.py",
    "tests/coordinator/test_next_model.py",
    "tests/coordinator/test_rollout_model.py",
    "tests/agent/test_projection_killed.py",
)
"""What takes a worker five seconds and more of the processor's time, or has few tests for what it takes."""
LONG_JOURNEYS = (
    "tests/journeys/test_outages_stopped.py",
    "tests/journeys/test_thirteen_cases.py",
    "tests/journeys/test_apply_wait.py",
    "tests/journeys/test_demo.py",
    "tests/journeys/test_documented_blocks.py",
    "tests/journeys/test_site_cut_off.py",
    "tests/journeys/test_documented_coordinators.py",
    "tests/journeys/test_replicas.py",
    "tests/journeys/test_backup.py",
    "tests/journeys/test_two_daemons.py",
    "tests/journeys/test_tour.py",
    "tests/journeys/test_agent_killed.py",
)
"""Of which one unit takes half a minute and more, whatever the processors have to do; half of all the time of journeys.
The longest first.
"""
S3 = (
    "tests/coordinator/test_upkeep.py",
    "tests/coordinator/test_kept_store.py",
    "tests/coordinator/test_storages.py",
)
"""By one server, with which whoever asks it takes two seconds of work to begin."""
_SHARED = ('scope="module"', 'scope="session"')


def sequence(node_ids: Sequence[str]) -> list[int]:
    """Places: journeys, first those that last longest, the house's own, what is long, then the files that have the
    most tests. A file's own order stays; in which order files were collected says nothing.
    """
    counts = Counter(map(_file, node_ids))

    def rank(place: int) -> tuple[int, int, str]:
        file = _file(node_ids[place])
        if file.startswith(_JOURNEYS):
            return 0, LONG_JOURNEYS.index(file) if file in LONG_JOURNEYS else len(LONG_JOURNEYS), file
        if _is_of_the_house(file):
            return 1, 0, file
        first = S3[0] if file in S3 else file
        return (2, LONG.index(first), file) if first in LONG else (3, -counts[file], file)

    return sorted(range(len(node_ids)), key=rank)


def unit(node_id: str) -> str:
    """What is given to a worker as a whole: a file, the house's files, those that share a server, or one test of a
    journey.
    """
    file = _file(node_id)
    if _is_of_the_house(file):
        return HOUSE
    if file in S3:
        return S3[0]
    return node_id if file.startswith(_JOURNEYS) and shares_nothing(file) else file


def next_unit(waiting: Iterable[str], worker: int) -> str:
    """Of the units that wait, in their order, the one that this worker takes: the first of its kind, of any journeys if
    those are its kind, or of any.
    """
    waiting = list(waiting)
    if worker % 4 == 0:
        return next((each for each in waiting if not each.startswith(_JOURNEYS)), waiting[0])
    journeys = [each for each in waiting if each.startswith(_JOURNEYS)] or waiting
    is_long = worker % 2 == 1
    return next((each for each in journeys if (_file(each) in LONG_JOURNEYS) == is_long), journeys[0])


def begun_elsewhere(found: Sequence[Any], worker: int, workers: int) -> list[Any]:
    """What a folder has, for one of several that collect all of it at the same moment: each begins at another place, so
    that what one of them has compiled is there when the next comes to it.
    """
    start = len(found) * worker // workers
    return [*found[start:], *found[:start]]


@cache
def shares_nothing(file: str) -> bool:
    """No fixture of its own is made once for all its tests."""
    text = (ROOT / file).read_text()
    return not any(word in text for word in _SHARED)


def _is_of_the_house(file: str) -> bool:
    return file.rpartition("/")[0] == HOUSE


def _file(node_id: str) -> str:
    return node_id.partition("::")[0]
