"""New content that a service is not well with: the node goes back by itself, whatever has ended it in between."""

import contextlib
from collections.abc import Iterator
from typing import Any

from tests.systemd import arrival
from tests.systemd.lab import WITHIN_S, Agent, Lab, Node
from tests.systemd.step import Each, check

ILL = "/etc/ill"
MOST_CRASHES = 3  # in store/base/probation.py, which loads LMDB: what runs here has the standard library alone
CHECKED = f"""
[[service]]
name = "checked"
scopes = ["service_assignment/*"]
check = ["/usr/bin/test", "!", "-e", "{ILL}"]
check_interval_s = 1
probation_s = 3600
"""


def reboot_in_the_middle_of_a_probation_is_no_way_around_it(lab: Lab, node: Node) -> None:
    """The service is ill only after the reboot, and no coordinator is there to be asked."""
    agent, machine = node.agent, node.machine
    with on_probation(agent) as before:
        machine.switch.unplug(machine.name)
        try:
            machine.cut_power()
            machine.write(ILL, "")
            machine.boot()
            reverted = until_back(agent, before)
        finally:
            machine.switch.plug(machine.name)
        check(reverted["check"] == "checked" and reverted["detail"] == "exit 1", str(reverted))


def agent_that_dies_of_what_it_holds_goes_back_at_its_start(lab: Lab, node: Node) -> None:
    """systemd starts it again and again, and nobody else is asked."""
    agent, machine = node.agent, node.machine
    with on_probation(agent) as before:
        for _ in range(MOST_CRASHES):
            pid = agent.main_pid()
            machine.good("kill", "-KILL", str(pid))
            machine.until(lambda last=pid: agent.main_pid() not in (0, last), WITHIN_S, "another process")
            agent.until_a_member()
        reverted = until_back(agent, before)
        check(reverted["check"] == "start", str(reverted))
        check(reverted["detail"] == f"the agent ended {MOST_CRASHES} times without order", str(reverted))


STEPS = (
    Each(reboot_in_the_middle_of_a_probation_is_no_way_around_it),
    Each(agent_that_dies_of_what_it_holds_goes_back_at_its_start),
)


@contextlib.contextmanager
def on_probation(agent: Agent) -> Iterator[int]:
    """Something new is, for an hour; the port before it. At the end the node takes what comes next, as it did."""
    arrival.configure(agent, CHECKED)
    agent.machine.good("systemctl", "restart", agent.unit)
    agent.until_current()
    before = agent.port
    agent.declare_next()
    agent.until_current()
    said = _said_of(agent)
    check(said.get("probation_until") is not None, f"it is not on probation: {said}")
    yield before
    (agent.machine.root / ILL.lstrip("/")).unlink(missing_ok=True)
    arrival.configure(agent)
    agent.machine.good("systemctl", "restart", agent.unit)
    agent.declare_next()
    agent.until_current()


def until_back(agent: Agent, port: int) -> dict[str, Any]:
    """What is said of what was tried, once services read what was good."""
    agent.until_seen(port)
    reverted: dict[str, Any] = _said_of(agent)["reverted"]
    return reverted


def _said_of(agent: Agent) -> dict[str, Any]:
    said: dict[str, Any] = agent.status["scopes"][agent.scope]
    return said
