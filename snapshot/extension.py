"""What a reader does not know (format.md 1, "Extension"): passed over and reported, never believed and never fatal.

So a later release may say more to its own nodes, and the older ones beside them go on. What must not be passed over has
a name that begins with `critical.`: a reader that does not know it refuses the document. Rejected: a higher
`schema_version` for each addition, since one such document would blind every older node at once.
"""

from collections.abc import Iterable

from snapshot.reasons import Reason, Rejected

CRITICAL = "critical."
FEATURES = (
    "authorities",
    "candidates",
    "config",
)  # what has been added to the format and this release reads; nodes report it, sorted


def refuse_critical(names: Iterable[str], where: str) -> None:
    """Of names that are not known; it is looked at before anything else that step 11 asks."""
    for name in names:
        if name.startswith(CRITICAL):
            expected = "no critical name that this release does not know"
            raise Rejected(11, Reason.UNSUPPORTED_SCHEMA, expected=expected, found=name, where=where)
