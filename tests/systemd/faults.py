"""What breaks under a node: its process, its power, its network, its clock, its disk. It goes on, and comes back."""

import contextlib
from collections.abc import Iterator

from tests.systemd.arrival import journal_of
from tests.systemd.lab import RUNS_ON, SECTION, WITHIN_S, Agent, Lab, Node
from tests.systemd.machines import Machine
from tests.systemd.step import Each, Once, check

DROP_IN = "/etc/systemd/system/holdfast-agent.service.d"
WATCHDOG_S = 4
OFFSET = "/etc/clock-offset"
STATE_MIB = 24
# Each offset, in seconds, that the wall clock jumps to.
JUMPS = (3600, -86400, 400 * 86400)
CLOCK = f"""\
[Service]
Environment=LD_PRELOAD={{library}} FAKETIME_TIMESTAMP_FILE={OFFSET} FAKETIME_NO_CACHE=1
Environment=FAKETIME_DONT_FAKE_MONOTONIC=1
"""


def killed_agent_is_back_before_its_caller_gives_up(lab: Lab, node: Node) -> None:
    agent, before = node.agent, node.agent.main_pid()
    node.machine.good("kill", "-KILL", str(before))
    check(agent.seen_port() == agent.port, "the caller right after kill -9 was not answered")
    check(agent.main_pid() not in (0, before), "it is the same process")


def stopped_agent_is_started_by_its_caller(lab: Lab, node: Node) -> None:
    agent = node.agent
    node.machine.run("systemctl", "stop", agent.unit)
    check(node.machine.run("systemctl", "is-active", "--quiet", agent.unit).status != 0, "it was not stopped")
    check(agent.seen_port() == agent.port, "the caller was not answered")


def loop_that_stands_still_is_ended_by_the_watchdog(lab: Lab, node: Node) -> None:
    agent, machine = node.agent, node.machine
    with drop_in(agent, "watchdog", f"[Service]\nWatchdogSec={WATCHDOG_S}\n"):
        before = agent.main_pid()
        machine.good("kill", "-STOP", str(before))
        machine.until(lambda: agent.main_pid() not in (0, before), WITHIN_S, "another process")
        agent.until_current()
    journal = journal_of(machine, agent.unit)
    check("Watchdog timeout" in journal, journal[-2000:])
    check("dumped core" not in journal.lower() and "core-dump" not in journal, "a core dump holds keys")


def power_cut_costs_nothing_that_was_active(lab: Lab, node: Node) -> None:
    """While something new is on its way: afterwards it is the new or the old, and then the new."""
    agent = node.agent
    before = agent.port
    agent.declare_next()
    node.machine.cut_power()
    node.machine.boot()
    check(agent.seen_port() in (before, agent.port), "neither the old nor the new configuration is there")
    agent.until_current()
    node.machine.good("holdfast", "store", "check")


def coordinator_that_is_gone_costs_nothing(lab: Lab) -> None:
    lab.coordinator.cut_power()
    for node in lab.nodes:
        node.machine.good("systemctl", "restart", node.agent.unit)
        check(node.agent.seen_port() == node.agent.port, f"debian {node.debian} does not serve")
        check(node.agent.state in RUNS_ON, f"debian {node.debian}: {node.agent.state}")
    lab.coordinator.boot()
    for node in lab.nodes:
        node.agent.declare_next()
        node.agent.until_current()


def node_that_is_cut_off_goes_on_and_catches_up(lab: Lab, node: Node) -> None:
    agent, machine = node.agent, node.machine
    before = agent.port
    machine.switch.unplug(machine.name)
    try:
        agent.declare_next()
        check(agent.seen_port() == before, "it heard of something through a cut cable")
        machine.good("kill", "-KILL", str(agent.main_pid()))
        check(agent.seen_port() == before, "it does not serve what it had")
    finally:
        machine.switch.plug(machine.name)
    agent.until_current()


def clock_that_jumps_takes_nothing_away(lab: Lab, node: Node) -> None:
    """An hour ahead, a day back, more than a year ahead; then it is right again."""
    agent, machine = node.agent, node.machine
    library = machine.good("sh", "-c", "ls /usr/lib/*/faketime/libfaketimeMT.so.1").strip()
    set_clock(machine, 0)
    with drop_in(agent, "clock", CLOCK.format(library=library)):
        agent.until_current()
        check(library in machine.good("cat", f"/proc/{agent.main_pid()}/maps"), "its clock is not ours to move")
        for offset in JUMPS:
            set_clock(machine, offset)
            check_serves_through(agent, f"at {offset:+d} s")
        set_clock(machine, 0)
        machine.good("systemctl", "reload", agent.unit)  # it is worth asking now
        agent.until_in("active")
        agent.declare_next()
        agent.until_current()


def full_disk_costs_nothing_that_was_active(lab: Lab, node: Node) -> None:
    agent, machine = node.agent, node.machine
    with small_disk(agent):
        agent.until_in("active")
        before = agent.port
        filler = f"{agent.state_directory}/filler"
        machine.run("sh", "-c", f"cat /dev/zero > {filler} 2> /dev/null")
        agent.declare_next()
        machine.until(lambda: said_that_it_is_full(agent), WITHIN_S, "it to say that its disk is full", every_s=0.5)
        check(agent.seen_port() == before, "it does not serve what it had")
        machine.good("systemctl", "restart", agent.unit)
        check(agent.seen_port() == before, "started on a full disk, it does not serve what it had")
        machine.good("rm", filler)
        agent.until_current()


STEPS = (
    Each(killed_agent_is_back_before_its_caller_gives_up),
    Each(stopped_agent_is_started_by_its_caller),
    Each(loop_that_stands_still_is_ended_by_the_watchdog),
    Each(power_cut_costs_nothing_that_was_active),
    Once(coordinator_that_is_gone_costs_nothing),
    Each(node_that_is_cut_off_goes_on_and_catches_up),
    Each(clock_that_jumps_takes_nothing_away),
    Each(full_disk_costs_nothing_that_was_active),
)


def set_clock(machine: Machine, offset_s: int) -> None:
    """By a rename: libfaketime ends a process that finds the file half written."""
    machine.write(f"{OFFSET}.next", f"{offset_s:+d}s\n")
    machine.good("mv", f"{OFFSET}.next", OFFSET)


def check_serves_through(agent: Agent, when: str) -> None:
    """Several looks, since the agent looks at its clock from time to time. What has expired may be asked for."""
    for _ in range(3):
        ran = agent.ask("get", agent.scope, SECTION, "--expired")
        check(ran.status == 0 and str(agent.port) in ran.out, f"{when}: {ran}")
    agent.machine.good("systemctl", "is-active", agent.unit)


@contextlib.contextmanager
def drop_in(agent: Agent, name: str, text: str) -> Iterator[None]:
    """The agent restarted with it, and without it at the end."""
    machine = agent.machine
    machine.write(f"{DROP_IN}/{name}.conf", text)
    _restart(agent)
    try:
        yield
    finally:
        (machine.root / DROP_IN.lstrip("/") / f"{name}.conf").unlink()
    _restart(agent)
    agent.until_current()


def _restart(agent: Agent) -> None:
    """Debian 12's libfaketime spoils a start now and then (EINVAL where the store is probed): systemd tries again."""
    machine = agent.machine
    machine.good("systemctl", "daemon-reload")
    machine.run("systemctl", "restart", agent.unit)
    active = ("systemctl", "is-active", "--quiet", agent.unit)
    machine.until(lambda: machine.run(*active).status == 0, WITHIN_S, "the agent to start", every_s=0.5)


@contextlib.contextmanager
def small_disk(agent: Agent) -> Iterator[None]:
    """The agent's state on a disk of its own, of a few MiB; what it holds at the end stays."""
    machine, state = agent.machine, agent.state_directory
    _moved(machine, agent, f"cp -a {state} /var/aside && mount -t tmpfs -o size={STATE_MIB}m,mode=0700 tmpfs {state}")
    _restart(agent)
    yield
    _moved(machine, agent, f"rm -rf /var/aside && cp -a {state} /var/aside && umount {state} && rm -rf {state}/*")
    _restart(agent)
    agent.until_current()
    machine.good("rm", "-rf", "/var/aside")


def _moved(machine: Machine, agent: Agent, how: str) -> None:
    """While neither the agent nor a caller that would start it is there."""
    machine.good("systemctl", "stop", f"{agent.unit}.socket", f"{agent.unit}.service")
    back = f"cp -a /var/aside/. {agent.state_directory}/ && chown --reference=/var/aside {agent.state_directory}"
    machine.good("sh", "-ec", f"{how} && {back}")
    machine.good("systemctl", "start", f"{agent.unit}.socket")


def said_that_it_is_full(agent: Agent) -> bool:
    journal = journal_of(agent.machine, agent.unit, "--lines=200")
    return "store_full" in journal or "No space left" in journal
