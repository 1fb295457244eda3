"""What systemd says of a unit: whether it is active, and for how long. Asked of systemctl, which asks over D-Bus.

Any account may read that. It runs in a process of its own with a deadline, beside the event loop; what it does not say
in time is not known, and nobody takes that for a yes.
"""

from agent.base.clock import monotonic_s
from agent.base.commands import run_command
from snapshot.frozen import frozen

ASK_S = 3.0
RUNNING = frozenset({"active", "reloading", "refreshing"})
PROPERTIES = ("ActiveState", "ActiveEnterTimestampMonotonic", "NRestarts")


@frozen
class UnitState:
    """`for_s`: so long it has been active at least; suspended time is not counted. `fault`: why it is not known.

    `restarts`: how often systemd has started it again by itself. `failed`: it ended as it should not.
    """

    active: bool
    for_s: float = 0.0
    fault: str = ""
    restarts: int = 0
    failed: bool = False


async def read_state(unit: str, *, systemctl: str = "systemctl") -> UnitState:
    """Raises nothing for what systemd does."""
    command = (systemctl, "show", *(f"--property={name}" for name in PROPERTIES), "--", unit)
    outcome = await run_command(command, timeout_s=ASK_S)
    if not outcome.ok:
        return UnitState(False, fault=str(outcome))
    return _parse(outcome.output, monotonic_s())


def _parse(said: str, now_s: float) -> UnitState:
    values = dict(word.split("=", 1) for word in said.split() if "=" in word)
    state, entered, restarted = (values.get(name, "") for name in PROPERTIES)
    if not state:
        return UnitState(False, fault="systemctl does not say whether it is active")
    restarts, microseconds = _number(restarted), _number(entered)
    if state not in RUNNING:
        return UnitState(False, restarts=restarts, failed=state == "failed")
    return UnitState(True, max(0.0, now_s - microseconds / 1e6) if microseconds else 0.0, restarts=restarts)


def _number(said: str) -> int:
    return int(said) if said.isascii() and said.isdigit() and len(said) < 20 else 0
