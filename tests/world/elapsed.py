"""The seconds that a test has waited, as its clock counts them.

The clock of a test is moved by sums of floats: of a second that it has slept it may tell 0.9999999999999858. A bound
that is met exactly would then fail once in some runs; so what has elapsed is told to the microsecond.
"""

import trio

_DIGITS = 6


def since(begun: float) -> float:
    """Seconds, of trio's clock, since then."""
    return round(trio.current_time() - begun, _DIGITS)
