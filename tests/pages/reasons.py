"""docs/reasons.md, from the enumerations of the code and the tables that explain them."""

import re
from enum import Enum

from agent.files.generations import REMEDY as FILES_REMEDY
from agent.files.generations import FilesFault
from agent.state.node_state import StateCause
from agent.state.reaction import REACTION, Reaction
from coordinator.base import refusal
from coordinator.base.remedies import EXPLANATIONS as CODES
from coordinator.reports.checkin import Comparison
from coordinator.runtime.context import status_of
from holdfast.node.explanations import ANSWERS, CAUSES
from snapshot import degraded
from snapshot.reasons import Reason
from snapshot.remedies import EXPLANATIONS
from store.base.errors import REMEDY, StoreFault
from tests.pages import http_errors
from tests.pages.comments import above, beside
from wire.exchange import ClientFault

HEAD = """\
# Reasons: what each code means, and what to do

Made from the code by `python -m tests.pages --write`; a test holds it against the code.

Codes are stable: scripts and alarms may rely on them. The text beside a code is for people and may change. A refusal
never changes what is active. `holdfast explain` and `holdfast status` show a node's codes with their remedies;
`holdfastctl fleet` shows those of all nodes.
"""

VALIDATOR = "validator_refused"

CONNECTIONS: dict[ClientFault, tuple[str, str]] = {
    ClientFault.BAD_ENDPOINT: ("The address is no `https://host:port` that may be asked.", "Correct it."),
    ClientFault.CONNECT_FAILED: (
        "No connection: the name is unknown, nobody listens, or a firewall is between.",
        "Look at name, port and network.",
    ),
    ClientFault.TLS_FAILED: (
        "The handshake failed: the chain does not end at `ca_file`, has expired, is for another name, or it is no TLS.",
        "Compare `ca_file` with the server's chain; look at both clocks.",
    ),
    ClientFault.PEER_PIN_MISMATCH: (
        "The peer shows another certificate than is pinned for it, or refuses ours.",
        "Find out who changed; a renewed certificate comes with the next `peer_directory`.",
    ),
    ClientFault.TIMED_OUT: ("No connection or no answer within the limit.", "The next source is asked by itself."),
    ClientFault.TOO_SLOW: ("The transfer stood still, or dripped.", "The next source is asked by itself."),
    ClientFault.TOO_LARGE: ("The answer is larger than what was asked for may be.", "Look at who answers there."),
    ClientFault.TRUNCATED: ("The answer ended early.", "The next source is asked by itself."),
    ClientFault.REDIRECTED: ("The source redirects; that is never followed.", "Name the final address."),
    ClientFault.ENCODED: ("The answer is compressed, which was not asked for.", "Switch it off at the source."),
    ClientFault.BAD_ANSWER: (
        "What came is no HTTP, or not of the form that was asked for.",
        "Look at who answers there.",
    ),
    ClientFault.REFUSED: ("The source says no; its status and code stand beside it.", "See the coordinator's codes."),
}


def page() -> str:
    parts = [
        HEAD,
        _documents(),
        _reactions(),
        _states(),
        _gate(),
        _store(),
        _files(),
        _sources(),
        _coordinator(),
        _alarms(),
        _http(),
    ]
    return "\n".join(parts)


def _documents() -> str:
    """Each verdict of the twelve steps."""
    steps = above(Reason)
    rows = [
        (
            steps[reason.name].removeprefix("step ") if steps[reason.name].startswith("step") else "any",
            f"`{reason}`",
            EXPLANATIONS[reason].meaning,
            EXPLANATIONS[reason].remedy,
            f"`{REACTION[reason]}`",
        )
        for reason in Reason
    ]
    about = (
        "The step is that of [format](format.md) 7. Where a code is met in a later step as well, the first is named. "
        f"Beside these, `{VALIDATOR}`: a service's own validator did not accept the candidate; the service's answer "
        "stands in `holdfast status`. And two by bounds of the node's own, at step 7: `valid_from_too_far` (more than "
        "seven days ahead) and `too_many_wait` (512 documents, or a quarter of `map_bytes`, wait already): asked for "
        "again after five minutes to an hour."
    )
    return _section("A document was refused", about, ("step", "code", "meaning", "what to do", "the agent"), rows)


def _reactions() -> str:
    rows = [(f"`{Reaction[name]}`", _sentence(text)) for name, text in beside(Reaction).items()]
    return _section("What the agent does by itself", "What is active stays active in each case.", ("", ""), rows)


def _states() -> str:
    """The cause of a node's state."""
    named = [str(cause) for cause in StateCause]
    rows = [(f"`{cause}`", CAUSES[cause]) for cause in dict.fromkeys([*named, *CAUSES])]
    about = (
        "`holdfast status` names the state and its cause. A node whose join was refused is `unenrolled` with the "
        "coordinator's code as its cause."
    )
    return _section("Why a node is in its state", about, ("cause", "meaning and what to do"), rows)


def _gate() -> str:
    rows = [(f"`{reason}`", _answer(reason)) for reason in degraded.GateReason]
    allowed = ", ".join(f"`{action}`" for action in degraded.RULES)
    never = ", ".join(f"`{action}`" for action in sorted(degraded.FORBIDDEN))
    about = (
        "`POST /v1/may` and `holdfast may` answer with one of these, or with the cause of the node's state.\n\n"
        f"Actions that may be allowed: {allowed}. Actions that never are, in any state: {never}."
    )
    return _section("What the gate answers", about, ("reason", "meaning and what to do"), rows)


def _answer(reason: degraded.GateReason) -> str:
    if reason is degraded.GateReason.OK:
        return "It may be done, until the time in `until`. Ask again then."
    return ANSWERS.get(str(reason)) or CAUSES[str(reason)]


def _store() -> str:
    notes = beside(StoreFault)
    rows = [(f"`{fault}`", _sentence(notes[fault.name]), _sentence(REMEDY[fault])) for fault in StoreFault]
    return _section("The node's store refuses", "", ("code", "meaning", "what to do"), rows)


def _files() -> str:
    notes = beside(FilesFault)
    rows = [(f"`{fault}`", _sentence(notes[fault.name]), _sentence(FILES_REMEDY[fault])) for fault in FilesFault]
    about = "`files.fault` of the status and the journal. The former files stay; it is tried again by itself."
    return _section("The files cannot be laid out", about, ("code", "meaning", "what to do"), rows)


def _sources() -> str:
    rows = [(f"`{fault}`", *CONNECTIONS[fault]) for fault in ClientFault]
    about = "Of a coordinator, a storage endpoint or a peer. `holdfast status` shows the last one of each source."
    return _section("A source could not be asked", about, ("code", "meaning", "what to do"), rows)


def _coordinator() -> str:
    rows = [(f"`{code}`", str(status_of(code)), *CODES[code]) for code in refusal.Code]
    about = (
        "A node is told the code alone, an operator the details as well. To a node `stale_state` is `not_ready`, with "
        "`Retry-After`."
    )
    return _section("The coordinator refuses", about, ("code", "HTTP", "meaning", "what to do"), rows)


def _alarms() -> str:
    notes = beside(Comparison)
    rows = [(f"`{one.value}`", _sentence(notes[one.name])) for one in Comparison if one is not Comparison.EQUAL]
    about = (
        "What a node says that it holds is compared with what the database has on record for it. `holdfastctl status` "
        "and the metrics count these."
    )
    return _section("The coordinator's alarms", about, ("alarm", "meaning"), rows)


def _http() -> str:
    rows = [(str(one.status), f"`{one.code}`", *http_errors.MEANINGS[one.code]) for one in http_errors.codes()]
    about = 'Every error of every listener is `{"code", "message"}`. These come from the servers themselves.'
    return _section("HTTP errors", about, ("status", "code", "meaning", "what to do"), rows)


def _section(title: str, about: str, columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in (columns, *rows)]
    lines.insert(1, "|" + "---|" * len(columns))
    return "\n".join([f"## {title}", "", *([about, ""] if about else []), *lines, ""])


def _sentence(text: str) -> str:
    """A comment as a sentence, without the rules that it cites."""
    text = re.sub(r"^rules [A-Z0-9, ]+[:;]? ?|: X\d+$", "", text).replace("GIVE_UP", "`give_up`")
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") or not text else ".")


def enumerations() -> list[type[Enum]]:
    """Those whose every member the page must hold."""
    return [Reason, Reaction, StateCause, degraded.GateReason, StoreFault, FilesFault, ClientFault, refusal.Code]
