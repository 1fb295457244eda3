"""docs/reasons.md, from the enumerations of the code and the tables that explain them."""

import re
from enum import Enum

from agent.files.generations import FilesFault
from agent.state.reaction import REACTION, Reaction
from coordinator.base import refusal
from coordinator.runtime.context import status_of
from snapshot import degraded
from snapshot.codes import CATALOGUE, Area, Explanation, explain
from snapshot.reasons import Reason
from store.base.errors import StoreFault
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

COLUMNS = ("code", "meaning", "what to do")


def page() -> str:
    parts = [
        HEAD,
        _documents(),
        _nodes_own(),
        _reactions(),
        _states(),
        _gate(),
        _joins(),
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
            *CATALOGUE[Area.DOCUMENT][reason],
            f"`{REACTION[reason]}`",
        )
        for reason in Reason
    ]
    about = (
        "The step is that of [format](format.md) 7. Where a code is met in a later step as well, the first is named."
    )
    return _section("A document was refused", about, ("step", "code", "meaning", "what to do", "the agent"), rows)


def _nodes_own() -> str:
    about = "Documents that are sound, and that the node or one of its services does not take."
    return _section("A document was not taken", about, COLUMNS, _rows(Area.NODES_OWN))


def _reactions() -> str:
    rows = [(f"`{Reaction[name]}`", _sentence(text)) for name, text in beside(Reaction).items()]
    return _section("What the agent does by itself", "What is active stays active in each case.", ("", ""), rows)


def _states() -> str:
    """The cause of a node's state."""
    about = (
        "`holdfast status` names the state and its cause. A node whose join was refused is `unenrolled` with the "
        "coordinator's code as its cause."
    )
    return _section("Why a node is in its state", about, COLUMNS, _rows(Area.STATE))


def _gate() -> str:
    allowed = ", ".join(f"`{action}`" for action in degraded.RULES)
    never = ", ".join(f"`{action}`" for action in sorted(degraded.FORBIDDEN))
    about = (
        "`POST /v1/may` and `holdfast may` answer with one of these, or with the cause of the node's state.\n\n"
        f"Actions that may be allowed: {allowed}. Actions that never are, in any state: {never}."
    )
    return _section("What the gate answers", about, COLUMNS, _rows(Area.GATE))


def _joins() -> str:
    about = "Beside these: the codes of the coordinator, of a source that could not be asked, and of the store."
    return _section("A join did not succeed", about, COLUMNS, _rows(Area.JOIN))


def _store() -> str:
    return _section("The node's store refuses", "", COLUMNS, _rows(Area.STORE))


def _files() -> str:
    about = "`files.fault` of the status and the journal. The former files stay; it is tried again by itself."
    return _section("The files cannot be laid out", about, COLUMNS, _rows(Area.FILES))


def _sources() -> str:
    about = "Of a coordinator, a storage endpoint or a peer. `holdfast status` shows the last one of each source."
    return _section("A source could not be asked", about, COLUMNS, _rows(Area.SOURCE))


def _coordinator() -> str:
    rows = [(f"`{code}`", str(status_of(code)), *CATALOGUE[Area.REQUEST][code]) for code in refusal.Code]
    about = (
        "A node is told the code alone, an operator the details as well. To a node `stale_state` and "
        "`no_signer` are `not_ready`, with `Retry-After`."
    )
    return _section("The coordinator refuses", about, ("code", "HTTP", "meaning", "what to do"), rows)


def _alarms() -> str:
    about = (
        "What a node says that it holds is compared with what the database has on record for it. `holdfastctl status` "
        "and the metrics count these."
    )
    return _section("The coordinator's alarms", about, ("alarm", *COLUMNS[1:]), _rows(Area.ALARM))


def _http() -> str:
    rows = [(str(one.status), f"`{one.code}`", *_of_listener(one.code)) for one in http_errors.codes()]
    about = 'Every error of every listener is `{"code", "message"}`. These come from the servers themselves.'
    return _section("HTTP errors", about, ("status", "code", "meaning", "what to do"), rows)


def _of_listener(code: str) -> Explanation:
    """Of the server itself, or of whoever answers through it."""
    found = explain(code, Area.LISTENER, Area.REQUEST)
    if found is None:
        raise KeyError(code)
    return found


def _rows(area: Area) -> list[tuple[str, ...]]:
    return [(f"`{code}`", *explanation) for code, explanation in CATALOGUE[area].items()]


def _section(title: str, about: str, columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in (columns, *rows)]
    lines.insert(1, "|" + "---|" * len(columns))
    return "\n".join([f"## {title}", "", *([about, ""] if about else []), *lines, ""])


def _sentence(text: str) -> str:
    """A comment as a sentence, without the rules that it cites."""
    text = re.sub(r"^rules [A-Z0-9, ]+[:;]? ?|: X\d+$", "", text).replace("GIVE_UP", "`give_up`")
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") or not text else ".")


def enumerations() -> dict[Area, type[Enum]]:
    """Whose every member is a row of its area."""
    return {
        Area.DOCUMENT: Reason,
        Area.GATE: degraded.GateReason,
        Area.STORE: StoreFault,
        Area.FILES: FilesFault,
        Area.SOURCE: ClientFault,
        Area.REQUEST: refusal.Code,
    }
