"""What becomes of a node over the years: further clusters, later versions, earlier ones, and none at all."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.systemd import arrival
from tests.systemd.debs import AGENT, CLIENT, COORDINATOR, CTL, Packages
from tests.systemd.lab import FABRIC, MEMBER, RUNS_ON, WITHIN_S, Agent, Control, Lab, Node
from tests.systemd.machines import Machine
from tests.systemd.step import Each, Once, check

FURTHER = "lab"
FURTHER_PORT = 7543
LATER, STORE_FORMAT_LATER = "99.1", "99.2"
CLIENTS, WATCHERS = 8, 2
SECRET_SUFFIXES = (".pem", ".key", ".token")
POLL = Path(__file__).with_name("poll.py")
DIRECTORIES = ("/var/lib/holdfast", f"/var/lib/holdfast-{FURTHER}", "/run/holdfast", f"/run/holdfast-{FURTHER}")


def second_cluster_begins(lab: Lab) -> None:
    """A coordinator of its own, started by hand: the package has one unit for one coordinator."""
    machine, state = lab.coordinator, f"/var/lib/holdfast-coordinator-{FURTHER}"
    socket = f"/run/holdfast-coordinator-{FURTHER}/admin.sock"
    control = lab.further = Control(machine, FURTHER, state, FURTHER_PORT, socket)
    configuration = f"/etc/holdfast/coordinator-{FURTHER}.toml"
    machine.good("install", "-d", "-m", "0700", "-o", "holdfast-coordinator", state)
    listen = ("--listen", f"0.0.0.0:{control.port}", "--listen-join", f"0.0.0.0:{control.port + 1}")
    own = ("--listen-probes", "127.0.0.1:9565", "--admin-socket", control.socket)
    arrival.begin(control, "--configuration", configuration, *listen, *own)
    service = ("User=holdfast-coordinator", f"RuntimeDirectory=holdfast-coordinator-{FURTHER}", "Type=notify")
    options = [f"--property={each}" for each in service]
    unit = f"--unit=holdfast-coordinator-{FURTHER}"
    machine.good("systemd-run", unit, *options, "holdfast-coordinator", "--config", configuration)
    control.apply(FABRIC.format(cluster=control.cluster, port=control.port))


def further_cluster_has_an_agent_of_its_own(lab: Lab, node: Node) -> None:
    """Joined the other way than the first one: each way is gone on each Debian."""
    assert lab.further is not None
    agent = node.further = Agent(node.machine, f"{node.machine.name}-{FURTHER}", lab.further, instance=FURTHER)
    agent.control.ctl("allow", "add", agent.node_id)
    if node is lab.nodes[0]:
        arrival.configure(agent)
        arrival.join_by_credential(agent)
    else:
        arrival.configure(agent, token_file=f"/etc/holdfast/join-{FURTHER}.token")
        node.machine.good("systemctl", "enable", "--now", f"{agent.unit}.socket", f"{agent.unit}.service")
        arrival.join_by_command(agent)
    agent.declare_next()
    agent.until_current()
    agent.until_in("active")
    check(node.agent.seen_port() == node.agent.port, "the first cluster's agent does not serve")
    node.machine.good("systemd-analyze", "security", "--no-pager", "--threshold=15", f"{agent.unit}.service")


def journals_hold_no_secret(lab: Lab) -> None:
    secrets = {secret for machine in lab.machines for secret in _secrets_on(machine)}
    check(len(secrets) > 2 * len(lab.machines), f"only {len(secrets)} secrets were found to look for")
    for machine in lab.machines:
        journal = machine.good("journalctl", "--no-pager", "--output=export", "--all")
        check("holdfast-" in journal, f"the journal of {machine.name} is empty")
        found = [secret[:12] for secret in secrets if secret in journal]
        check(not found, f"{machine.name}: secrets that begin with {found} are in the journal")
        check("PRIVATE KEY" not in journal, f"{machine.name}: a private key is in the journal")


def upgrade_under_load_refuses_no_request_and_loses_nothing(lab: Lab, node: Node) -> None:
    agent, machine, further = node.agent, node.machine, node.further
    assert further is not None
    packages = lab.issued_again(LATER)
    machine.write("/srv/poll.py", POLL.read_text())
    before, further_before = agent.main_pid(), further.main_pid()
    with ThreadPoolExecutor(1) as pool:
        words = ("python3", "/srv/poll.py", str(CLIENTS), str(WATCHERS), agent.scope)
        polling = pool.submit(machine.good, *words, user=MEMBER)
        try:
            begun = ("test", "-e", "/tmp/polling")
            machine.until(lambda: machine.run(*begun).status == 0, WITHIN_S, "the clients to begin")
            agent.declare_next()
            arrival.install(machine, packages, AGENT, CLIENT)
            agent.until_current()
        finally:
            machine.good("touch", "/tmp/polled-enough")
        answers = json.loads(polling.result())
    check(answers["failed"] == {}, f"{answers}")
    check(answers["answered"] > 2 * CLIENTS, f"{answers}")
    check(agent.main_pid() not in (0, before), "the old version still runs")
    check(further.main_pid() not in (0, further_before), "the further agent's old version still runs")
    check(LATER in machine.good("dpkg-query", "--show", AGENT), "the later version is not installed")
    agent.until_in("active")


def downgrade_below_the_format_of_the_store_is_refused(lab: Lab, node: Node) -> None:
    """A version that knows a later format comes, and goes not: it serves on, and nothing of the store is touched."""
    agent, machine = node.agent, node.machine
    later = _later_format(lab)
    arrival.install(machine, later, AGENT, CLIENT)
    agent.until_current()
    refused = machine.run("dpkg", "--install", f"/srv/{lab.packages.file(AGENT).name}")
    check(refused.status != 0 and "store format 2" in refused.err, f"dpkg: {refused}")
    check(agent.seen_port() == agent.port, "after the refused downgrade it does not serve")
    check(STORE_FORMAT_LATER in machine.good("dpkg-query", "--show", AGENT), "it is not what it was")
    machine.good("dpkg", "--audit")
    agent.declare_next()
    agent.until_current()


def removal_keeps_the_state(lab: Lab, node: Node) -> None:
    """Installed again, everything goes on: the agents of both clusters, and what was allowed to another unit."""
    agent, machine = node.agent, node.machine
    enabled = (
        "holdfast-reload@web.service.path",
        f"holdfast-agent@{FURTHER}.socket",
        f"holdfast-agent@{FURTHER}.service",
    )
    machine.good("systemctl", "enable", "--now", *enabled)
    _apt(machine, "remove", AGENT)
    check(machine.run("pgrep", "--full", "holdfast-agent").status != 0, "an agent still runs")
    check(not (machine.root / "usr/share/holdfast/agent").exists(), "its modules are still there")
    for state in ("/var/lib/holdfast", f"/var/lib/holdfast-{FURTHER}"):
        check(list((machine.root / state.lstrip("/")).rglob("data.mdb")), f"{state} has lost its store")
    machine.switch.unplug(machine.name)
    try:
        arrival.install(machine, _later_format(lab), AGENT)
        agent.until_current()
        check(agent.state in RUNS_ON, f"installed again it is {agent.state}")
        active = ("systemctl", "is-active", *enabled)
        machine.until(lambda: machine.run(*active).status == 0, WITHIN_S, f"{enabled} to be active")
    finally:
        machine.switch.plug(machine.name)


def purge_leaves_nothing(lab: Lab, node: Node) -> None:
    machine = node.machine
    _apt(machine, "purge", AGENT, CLIENT)
    left = [path for path in DIRECTORIES if (machine.root / path.lstrip("/")).exists() and "/run" not in path]
    left += [path for path in DIRECTORIES if machine.run("test", "-e", path).status == 0 and path not in left]
    check(not left, f"left: {left}")
    check(not (machine.root / "etc/holdfast/agent.toml").exists(), "agent.toml is left")
    units = machine.run("systemctl", "list-unit-files", "--no-legend", "holdfast*").out  # none is a failure to it
    check(not units.strip(), units)
    check(not machine.good("systemctl", "--failed", "--no-legend").strip(), "a unit has failed")


def purged_coordinator_leaves_nothing(lab: Lab) -> None:
    machine = lab.coordinator
    machine.run("systemctl", "stop", f"holdfast-coordinator-{FURTHER}")
    _apt(machine, "remove", COORDINATOR)
    database = machine.root / "var/lib/holdfast-coordinator/coordinator.db"
    check(database.exists(), "removal has taken the database")
    arrival.install(machine, lab.packages, CTL, COORDINATOR)
    arrival.until_serving(lab.control)
    _apt(machine, "purge", COORDINATOR)
    check(not database.parent.exists(), f"{database.parent} is left")


STEPS = (
    Once(second_cluster_begins),
    Each(further_cluster_has_an_agent_of_its_own),
    Each(upgrade_under_load_refuses_no_request_and_loses_nothing),
    Each(downgrade_below_the_format_of_the_store_is_refused),
    Once(journals_hold_no_secret),
    Each(removal_keeps_the_state),
    Each(purge_leaves_nothing),
    Once(purged_coordinator_leaves_nothing),
)


def _later_format(lab: Lab) -> Packages:
    return lab.issued_again(STORE_FORMAT_LATER, _know_a_later_format)


def _know_a_later_format(unpacked: Path) -> None:
    """As the first release will be that changes the store: format 2, and a step that leads to it."""
    migration = unpacked / "usr/share/holdfast/store/base/migration.py"
    text = migration.read_text()
    changed = text.replace("FORMAT = 1\n", "FORMAT = 2\n").replace("Step] = {}", "Step] = {1: lambda _: None}")
    check(
        changed.count("2\n") > text.count("2\n") and "lambda" in changed, "store/base/migration.py is not what it was"
    )
    migration.write_text(changed)
    preinst = unpacked / "DEBIAN/preinst"
    preinst.write_text(re.sub(r"(?m)^KNOWN_FORMAT=1$", "KNOWN_FORMAT=2", preinst.read_text()))


def _secrets_on(machine: Machine) -> set[str]:
    """Join tokens, and a line of each private key, of everything that a machine has on its disk."""
    found = set()
    for folder in ("etc/holdfast", "etc/credstore", "root", "var/lib"):
        for path in (machine.root / folder).rglob("*"):
            if path.is_file() and (path.suffix in SECRET_SUFFIXES or path.parent.name == "credstore"):
                found |= _secrets_in(path.read_text(errors="replace"))
    return found


def _secrets_in(text: str) -> set[str]:
    keys = re.findall(r"-----BEGIN [A-Z ]*PRIVATE KEY-----\n([A-Za-z0-9+/=]+)\n", text)
    return set(keys) or ({text.strip()} if text.strip() and "-----" not in text else set())


def _apt(machine: Machine, *words: str) -> None:
    machine.good("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "--yes", *words)
