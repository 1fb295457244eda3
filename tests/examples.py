"""How many examples a property is tried with: what its test names, times HOLDFAST_EXAMPLES. Less than 1 where a run
repeats another one with other libraries, more where there is time (`make faults`).

Hypothesis tries the same ones in each run where it sees that it is in CI, so that a run that repeats another one shows
nothing new. Here each has its own: at random, and in CI by a number that the Makefile gives to each run (`SEED`).
"""

import os

from hypothesis import HealthCheck, settings

FACTOR = float(os.environ.get("HOLDFAST_EXAMPLES", "1"))
_FEWEST = 5


def examples(count: int, **more: object) -> settings:
    """How long an example takes, or is looked for, says how busy the machine is: no deadline."""
    given = {"deadline": None, "derandomize": False, "suppress_health_check": [HealthCheck.too_slow], **more}
    return settings(max_examples=max(_FEWEST, round(count * FACTOR)), **given)
