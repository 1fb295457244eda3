"""How old a document is, in truth. Pure.

`issued_at` is up to `SKEW_S` before the document was made: a coordinator dates back what it signs, so that nodes whose
clocks are behind accept it at once. So the time since `issued_at` is the most that the age can be, and that less the
skew the least. The time since this node took it is a least as well, since nothing is taken before it is made. The age
told is the greater of the two least ones, which is the true one for what our coordinators sign.

What was rejected: counting from when it was taken. A source that withholds heads would look fresh with each old one
that it lets through; by `issued_at` it can gain nothing, and the skew at most where a signer does not date back. And
telling the most: every head was five minutes old as it arrived, and nobody could see a delay that is smaller.
"""

from agent.base.guarded_clock import SKEW_S


def age_s(issued_at: float, taken_at: float | None, now: float) -> int:
    """Whole seconds by the guarded clock; `taken_at`: when this node activated it, None where it did not."""
    most = max(0.0, now - issued_at)
    least = most - SKEW_S
    held = 0.0 if taken_at is None else now - taken_at
    return int(min(most, max(0.0, least, held)))
