"""What a node's journal has to say of an outage, as `holdfastctl nodes events --json` tells it."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

SECONDS_ARE_WHOLE = 1.0


def of_the_outage(events: Iterable[Mapping[str, Any]], began: float, ended: float) -> list[dict[str, Any]]:
    """Those that happened while there was no coordinator and were received after it: the oldest first."""
    found = [dict(each) for each in events]
    found = [each for each in found if began - SECONDS_ARE_WHOLE <= _at(each) <= ended < each["received_at"]]
    return sorted(found, key=lambda each: int(each["sequence"]))


def missing(events: Sequence[Mapping[str, Any]], service: str) -> list[str]:
    """What is not told: of the time before the restart, the restart, and of the time after it.

    Who asks in the moment in which the head runs out may be answered before the change of state is written down.
    """
    restarted = ("state_changed", "started -> degraded")
    place = next((number for number, each in enumerate(events) if _is(each, *restarted)), None)
    before = (
        ("state_changed", "active -> degraded"),
        ("decided", f"yes, ok: continue_services {service}"),
        ("decided", f"no, not_in_policy: start_service {service}"),
    )
    after = (restarted, ("decided", f"no, degraded_limit: open_session {service}"))
    story = ((before, events[:place]), (after, events[place:]))
    return [what for wanted, told in story for kind, what in wanted if not any(_is(each, kind, what) for each in told)]


def as_lines(events: Iterable[Mapping[str, Any]]) -> str:
    return "\n".join(f"{each['at']}  {each['event']:14} {each['scope']:8} {each['detail']}".rstrip() for each in events)


def _is(event: Mapping[str, Any], kind: str, what: str) -> bool:
    return bool(event["event"] == kind) and str(event["detail"]).startswith(what)


def _at(event: Mapping[str, Any]) -> float:
    return datetime.fromisoformat(event["at"]).timestamp()
