"""A node's codes as its commands say them, from the catalogue in snapshot/codes.py."""

from snapshot.codes import Area, Explanation, explain
from wire.local.node_status import CandidateState, JoinTrouble

REFRESH_REQUIRED = (
    "it must be fetched whole, and its source is not asked unattended (automatic_refresh): "
    "systemctl reload holdfast-agent"
)

FIRST_USE = "the root keys are those of the first answer, and nobody has confirmed them"
FIRST_USE_REMEDY = (
    "until then nothing new begins and no service is told. Compare them with holdfastctl trust show, on the "
    "coordinator's machine; what stands there: holdfast trust confirm --threshold N ID...; if it is not the same, this "
    "node belongs to somebody else: stop it, remove its state directory, join by a join file"
)

_JOURNAL = "see the journal of holdfast-agent"
_DOCUMENT = (Area.DOCUMENT, Area.NODES_OWN)
_JOIN = (Area.JOIN, Area.STORE, Area.REQUEST, Area.SOURCE, Area.LISTENER)


def failure_text(failure: JoinTrouble) -> str:
    """Of `join` in the status: the code, what was met, and the remedy."""
    return f"{failure.code}: {failure.detail}: {join_text(failure.code)}"


def join_text(code: str) -> str:
    """Why a join did not succeed, and what to do: the coordinator's code, or how far the attempt came."""
    return _text(explain(code, *_JOIN))


def is_cause(code: str) -> bool:
    return explain(code, Area.STATE) is not None


def cause_text(code: str) -> str:
    """Of a state, or of a fence."""
    return _text(explain(code, Area.STATE))


def answer_text(code: str) -> str | None:
    """Of an answer of the gate; None for one that is not known here."""
    found = explain(code, Area.GATE, Area.STATE)
    return None if found is None else found.text


def service_text(code: str) -> str | None:
    """Why a service is not ready: the state's cause first, since it is the whole node's."""
    found = explain(code, Area.STATE, Area.GATE)
    return None if found is None else found.text


def store_text(code: str) -> str:
    found = explain(code, Area.STORE)
    return _JOURNAL if found is None else found.clause


def meaning(reason: str) -> str:
    """Of a rejection: what it means and what to do."""
    found = explain(reason, *_DOCUMENT)
    return reason if found is None else f"{reason}. {found.text}"


def refused_candidate_text(coming: CandidateState) -> str:
    """What is listed as coming and could not be run here: why, what was said, and what it means."""
    found = explain(coming.reason, *_DOCUMENT, Area.STORE)
    said = f"{coming.reason}: {coming.detail}" if coming.detail else coming.reason
    of = f" with {coming.change}" if coming.change else ""
    return f"which is to come{of}, could not be run here: {said}" + (f". {found.text}" if found is not None else "")


def _text(found: Explanation | None) -> str:
    return _JOURNAL if found is None else found.text
