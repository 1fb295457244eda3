"""From an empty disk to a node that runs on what its coordinator declares."""

import json
import tomllib
from concurrent.futures import ThreadPoolExecutor

from tests.systemd.debs import AGENT, CLIENT, COORDINATOR, CTL, Packages
from tests.systemd.lab import CLUSTER, FABRIC, MEMBER, STRANGER, WITHIN_S, Agent, Control, Lab, Node
from tests.systemd.machines import Machine
from tests.systemd.step import Each, Once, check

AGENT_TOML = """\
[node]
cluster_id = "{cluster}"
node_id = "{node}"

[coordinator]
urls = ["https://coordinator:{port}"]
join_urls = ["https://coordinator:{join_port}"]
ca_file = "/etc/holdfast/{cluster}-ca.pem"

[intervals]
heartbeat_interval_s = 5
poll_wait_s = 10
backoff_cap_s = 30
{more}"""

MAKE_KEY = """\
from cryptography.hazmat.primitives import serialization as form
from cryptography.hazmat.primitives.asymmetric import ec
key = ec.generate_private_key(ec.SECP256R1())
print(key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption()).decode(), end="")
"""
OWNER = "/srv/owner.key"  # of the seed, on the coordinator for want of a machine of its own
WAIT = "holdfast-agent-wait"
SHORT_WAIT = "[Service]\nExecStart=\nExecStart=/usr/bin/holdfast status --wait 1\n"
IN_VAIN = f"""\
[Unit]
Requires={WAIT}.service
After={WAIT}.service
[Service]
Type=oneshot
ExecStart=/bin/touch /run/in-vain
"""

LOCAL_TOML = """
[local]
socket_path = "{folder}/agent.sock"
projection_directory = "{folder}"
"""


def machines_boot(lab: Lab) -> None:
    with ThreadPoolExecutor(len(lab.machines)) as pool:
        list(pool.map(Machine.boot, lab.machines))


def coordinator_without_a_cluster_says_how_one_begins(lab: Lab) -> None:
    """And does not try again and again: a machine that is made ready for one has no unit that runs in circles."""
    machine = lab.coordinator
    install(machine, lab.packages, CTL, COORDINATOR)
    check(machine.run("systemctl", "start", "holdfast-coordinator").status != 0, "it started without a cluster")
    said = journal_of(machine, "holdfast-coordinator", "--priority=err")
    check("holdfastctl init" in said and "Traceback" not in said, said)
    facts = machine.good("systemctl", "show", "--property=ActiveState,NRestarts", "holdfast-coordinator")
    check(set(facts.split()) == {"ActiveState=failed", "NRestarts=0"}, facts)


def coordinator_begins_a_cluster(lab: Lab) -> None:
    lab.coordinator.good("holdfastctl", "coordinators", "owner-key", "--out", OWNER)
    begin(lab.control, "--seed-share-owner", OWNER.replace(".key", ".pub"))
    lab.coordinator.good("systemctl", "start", "holdfast-coordinator")
    until_serving(lab.control)
    lab.control.apply(FABRIC.format(cluster=CLUSTER, port=lab.control.port))


def certificate_of_the_coordinator_is_renewed(lab: Lab) -> None:
    """By root, for the account and the sandbox that it runs in; the nodes that join afterwards are bound to it."""
    machine, control = lab.coordinator, lab.control
    made = json.loads(machine.good("holdfastctl", "coordinators", "certificate", "--json"))["fingerprint"]
    check(control.certificate not in ("", made), f"it is shown before the reload: {made}")
    machine.good("systemctl", "reload", "holdfast-coordinator")
    machine.until(lambda: control.certificate == made, 60, "the coordinator to show its new certificate", every_s=0.3)


def coordinator_is_backed_up_by_its_timer(lab: Lab) -> None:
    """By the account and in the sandbox of the unit; what it has written is whole."""
    machine, folder = lab.coordinator, "/var/lib/holdfast-backups"
    machine.good("systemctl", "enable", "--now", "holdfast-backup.timer")
    machine.good("systemctl", "start", "holdfast-backup.service")
    (file,) = machine.good("ls", folder).split()
    machine.good("holdfastctl", "backup", "verify", f"{folder}/{file}")


def agent_is_installed_by_apt_with_what_it_depends_on(lab: Lab, node: Node) -> None:
    install(node.machine, lab.packages, AGENT, CLIENT)
    node.machine.good("useradd", "--groups", "holdfast", "--user-group", MEMBER)
    node.machine.good("useradd", "--user-group", STRANGER)
    node.machine.good("python3", "-c", "import holdfast.client")
    old = [line for line in node.machine.good("dpkg", "--listfiles", AGENT).splitlines() if line.startswith("/lib")]
    check(not old, f"below another name of /usr/lib: {old}")


def first_start_says_unenrolled_and_what_to_do(lab: Lab, node: Node) -> None:
    node.machine.good("systemctl", "is-active", "holdfast-agent.socket")
    ran = node.agent.ask("status")
    check("UNENROLLED" in ran.out and "agent.toml" in ran.out, f"holdfast status: {ran}")
    until_systemctl_says(node.agent, "unenrolled", "agent.toml")
    said = node.machine.good("systemctl", "status", "--no-pager", "--full", "holdfast-agent")
    check("unenrolled" in said.lower() and "agent.toml" in said, said)


def agent_that_is_told_its_coordinator_says_that_it_wants_a_token(lab: Lab, node: Node) -> None:
    configure(node.agent)
    node.machine.good("systemctl", "restart", "holdfast-agent")
    said = node.agent.ask("status").out
    check("UNENROLLED" in said and "holdfast join" in said, said)
    until_systemctl_says(node.agent, "holdfast join")
    said = journal_of(node.machine, node.agent.unit, "--priority=warning")
    check("holdfast join" in said, f"as a warning, the journal has: {said}")
    lab.control.ctl("allow", "add", node.agent.node_id)


def service_that_waits_in_vain_is_told_why(lab: Lab, node: Node) -> None:
    """It does not start, and systemd's own word is not all that its administrator has."""
    machine = node.machine
    machine.write(f"/etc/systemd/system/{WAIT}.service.d/short.conf", SHORT_WAIT)
    machine.write("/etc/systemd/system/in-vain.service", IN_VAIN)
    machine.good("systemctl", "daemon-reload")
    check(machine.run("systemctl", "start", "in-vain.service").status != 0, "it has started")
    check(machine.run("test", "-e", "/run/in-vain").status != 0, "it has run")
    said = journal_of(machine, WAIT)
    check("not ready after 1 s: not_enrolled" in said and "holdfast join" in said, said)
    (machine.root / f"etc/systemd/system/{WAIT}.service.d/short.conf").unlink()
    machine.good("systemctl", "daemon-reload")
    machine.good("systemctl", "reset-failed", f"{WAIT}.service")


def joins_by_command_or_by_a_token_credential(lab: Lab, node: Node) -> None:
    """The older Debian by the command, the newer one by the credential; further clusters the other way round."""
    if node is lab.nodes[0]:
        join_by_command(node.agent)
    else:
        join_by_credential(node.agent)
    node.agent.declare_next()
    node.agent.until_in("active")


def what_is_declared_becomes_active(lab: Lab, node: Node) -> None:
    node.agent.until_current()
    node.agent.declare_next()
    node.agent.until_current()


STEPS = (
    Once(machines_boot),
    Once(coordinator_without_a_cluster_says_how_one_begins),
    Once(coordinator_begins_a_cluster),
    Once(certificate_of_the_coordinator_is_renewed),
    Once(coordinator_is_backed_up_by_its_timer),
    Each(agent_is_installed_by_apt_with_what_it_depends_on),
    Each(first_start_says_unenrolled_and_what_to_do),
    Each(agent_that_is_told_its_coordinator_says_that_it_wants_a_token),
    Each(service_that_waits_in_vain_is_told_why),
    Each(joins_by_command_or_by_a_token_credential),
    Each(what_is_declared_becomes_active),
)


def install(machine: Machine, packages: Packages, *names: str, more: tuple[str, ...] = ()) -> str:
    """By apt, which finds what they depend on in the tree: there is no other network."""
    (machine.root / "srv").mkdir(exist_ok=True)
    for name in names:
        file = packages.file(name)
        (machine.root / "srv" / file.name).write_bytes(file.read_bytes())
    files = [f"/srv/{packages.file(name).name}" for name in names]
    command = ["apt-get", "install", "--yes", "--no-install-recommends", *more, *files]
    return machine.good("env", "DEBIAN_FRONTEND=noninteractive", *command)


def journal_of(machine: Machine, unit: str, *more: str) -> str:
    """What a unit, and systemd of it, has said up to now: the journal writes a moment later."""
    machine.good("journalctl", "--sync")
    return machine.good("journalctl", "--no-pager", "--output=cat", f"--unit={unit}", *more)


def until_systemctl_says(agent: Agent, *words: str) -> None:
    """The agent tells systemd its state a moment after it answers its first caller."""
    asked = ("systemctl", "show", "--property=StatusText", agent.unit)
    what = f"systemctl status to say {' and '.join(words)}"
    agent.machine.until(lambda: all(word in agent.machine.good(*asked) for word in words), WITHIN_S, what)


def begin(control: Control, *more: str) -> None:
    """`holdfastctl init` as root: the service's account is given what it is to read, and no root key."""
    roots = f"/srv/roots-{control.cluster}"
    url = f"https://coordinator:{control.port}"
    command = ("holdfastctl", "init", control.cluster, "--url", url, "--state", control.state)
    control.machine.good(*command, "--root-keys-to", roots, *more)


def until_serving(control: Control) -> None:
    control.machine.until(lambda: control.status, WITHIN_S, "the coordinator to serve")
    control.ctl("status")


def configure(agent: Agent, more: str = "", *, token_file: str = "") -> None:
    """As docs/installing.md says, for a first cluster or a further one; `more` is further tables."""
    control = agent.control
    text = AGENT_TOML.format(
        cluster=control.cluster, node=agent.node_id, port=control.port, join_port=control.port + 1, more=more
    )
    if agent.instance:
        text = text.replace("[node]\n", f'[node]\nstate_directory = "{agent.state_directory}"\n')
        text += LOCAL_TOML.format(folder=agent.run_folder)
    if token_file:
        text = text.replace("[coordinator]\n", f'[coordinator]\ntoken_file = "{token_file}"\n')
    tomllib.loads(text)
    agent.machine.write(agent.configuration, text)
    agent.machine.write(f"/etc/holdfast/{control.cluster}-ca.pem", control.ca)


def token_for(agent: Agent) -> str:
    place = f"/srv/{agent.node_id}.token"
    agent.control.ctl("tokens", "create", "--node", agent.node_id, "--out", place)
    return (agent.control.machine.root / place.lstrip("/")).read_text()


def join_by_command(agent: Agent) -> None:
    socket = f"{agent.run_folder}/agent.sock"
    said = agent.machine.good(
        "holdfast", "join", "--config", agent.configuration, "--socket", socket, "--token-file", "-",
        stdin=token_for(agent),
    )  # fmt: skip
    check("joined" in said, said)


def join_by_credential(agent: Agent) -> None:
    """As a provisioning system does it: token and key lie in the credential store before the agent starts."""
    machine, ending = agent.machine, f".{agent.instance}" if agent.instance else ""
    key = machine.good("python3", "-c", MAKE_KEY)
    machine.write(f"/etc/credstore/holdfast.node-key{ending}", key, 0o600)
    machine.write(f"/etc/credstore/holdfast.join-token{ending}", token_for(agent), 0o600)
    machine.good("systemctl", "restart", agent.unit)
    agent.until_a_member()
    (identity,) = (machine.root / agent.state_directory.lstrip("/")).glob("clusters/*/identity/node.pem")
    check("PRIVATE KEY" not in identity.read_text(), "it has made a key beside the one that it was given")
