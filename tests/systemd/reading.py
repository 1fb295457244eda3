"""Who on a node reads what, how services are told, and what the unit's sandbox is worth."""

import json

from tests.systemd import arrival
from tests.systemd.lab import CLUSTER, MEMBER, SECTION, STRANGER, WITHIN_S, Agent, Lab, Node
from tests.systemd.machines import MachineError
from tests.systemd.step import Each, check

GREATEST_EXPOSURE = 15  # tenths, of 100
AGENT_DOWN, NOT_FOUND = 3, 4
CONFIGURATION_IS_WRONG = "78"  # sysexits(3)
OTHER = "other"  # a member of the socket's group that [access] leaves out of one scope
READER = "import sys, holdfast.client as c; print(c.Client().get(*sys.argv[1:]).facts.source)"

# What an operator adds for a service that is reloaded, and for a scope that not everybody reads.
MORE = f"""
[access."*"]
users = ["{MEMBER}"]
expired = true

[access."node_bootstrap"]
users = ["{OTHER}"]

[[service]]
name = "web"
scopes = ["service_assignment/*"]
notify = "reload"
unit = "web.service"
timeout_s = 5
"""
# Any files for any program, by the operator's folder.
CONFIG = """\
kind: Config
id: {node}-app
spec:
  to: {{nodes: [{node}]}}
  files:
    limits.json: {{json: {{most: {most}}}, schema: limits.schema.json}}
    motd: {{text: "${{node.id}} of ${{cluster.id}}\\n", template: true}}
    conf.d/served.conf: {{file: served.conf}}
"""
SCHEMA = '{"type": "object", "properties": {"most": {"type": "integer", "maximum": 9}}}'
WEB = "[Service]\nExecStart=/bin/sleep infinity\nExecReload=/bin/sh -c 'date +%%s%%N > /run/web-reloaded'\n"
LATE = """\
[Unit]
Requires=holdfast-agent-wait.service
After=holdfast-agent-wait.service
[Service]
Type=oneshot
User=member
ExecStart=/usr/bin/holdfast get {scope} {section}
"""


def ordinary_user_of_the_group_reads(lab: Lab, node: Node) -> None:
    """By the command, by the library, with curl's means, and from the files."""
    agent = node.agent
    check(agent.seen_port() == agent.port, f"{agent.seen_port()}, not {agent.port}")
    said = node.machine.good("python3", "-c", READER, agent.scope, SECTION, user=MEMBER)
    check(said.strip() == "agent", said)
    file = f"{agent.files}/{SECTION}.json"
    read = ("cat", file)  # the files follow an activation a moment later
    shown = f"{file} to have port {agent.port}"
    node.machine.until(lambda: str(agent.port) in node.machine.run(*read, user="holdfast").out, WITHIN_S, shown)
    check(node.machine.run("test", "-w", f"{agent.run_folder}/active", user=MEMBER).status != 0, "files are writable")


def any_program_reads_the_files_of_a_config(lab: Lab, node: Node) -> None:
    """Sent by the operator, judged by their schema in the coordinator's sandbox, and laid out on the node."""
    agent, machine = node.agent, node.machine
    folder = f"{agent.run_folder}/active/config/{agent.node_id}-app"
    beside = {"limits.schema.json": SCHEMA, "served.conf": "listen 80;\n"}
    lab.control.apply_folder({"app.yaml": CONFIG.format(node=agent.node_id, most=3), **beside})
    wanted = {"limits.json": '{"most":3}', "motd": f"{agent.node_id} of {CLUSTER}", "conf.d/served.conf": "listen 80;"}
    for name, text in wanted.items():
        read = ("cat", f"{folder}/{name}")
        shown = f"{folder}/{name} to say {text}"
        machine.until(lambda read=read, text=text: machine.run(*read, user=MEMBER).out.strip() == text, WITHIN_S, shown)
    check(machine.run("ls", folder, user=STRANGER).status != 0, f"{folder} is open")
    try:
        lab.control.apply_folder({"app.yaml": CONFIG.format(node=agent.node_id, most=10), **beside})
    except MachineError as refused:
        check("limits.json.json.most" in str(refused), str(refused))
    else:
        raise AssertionError("a value that its schema does not take was applied")
    check(machine.run("cat", f"{folder}/limits.json", user=MEMBER).out.strip() == '{"most":3}', "it changed")


def user_without_access_is_kept_out(lab: Lab, node: Node) -> None:
    agent = node.agent
    ran = agent.ask("status", user=STRANGER)
    check(ran.status == AGENT_DOWN and "may not be opened" in ran.err, f"holdfast status as {STRANGER}: {ran}")
    ran = agent.ask("get", agent.scope, SECTION, user=STRANGER)
    check(ran.status != 0 and str(agent.port) not in ran.out, f"holdfast get as {STRANGER}: {ran}")
    for path in (agent.state_directory, agent.files):
        check(node.machine.run("ls", f"{path}/", user=STRANGER).status != 0, f"{path} is open")


def access_table_hides_a_scope_from_one_of_the_group(lab: Lab, node: Node) -> None:
    agent = node.agent
    node.machine.good("useradd", "--groups", "holdfast", "--user-group", OTHER)
    node.machine.write("/etc/systemd/system/web.service", WEB)
    node.machine.good("systemctl", "daemon-reload")
    node.machine.good("systemctl", "start", "web.service")
    node.machine.good("systemctl", "enable", "--now", "holdfast-reload@web.service.path")
    arrival.configure(agent, MORE)
    node.machine.good("systemctl", "restart", agent.unit)
    agent.until_current()
    ran = agent.ask("get", agent.scope, SECTION, user=OTHER)
    check(ran.status == NOT_FOUND, f"holdfast get as {OTHER}: {ran}")
    ran = agent.ask("get", "node_bootstrap", user=OTHER)
    check(ran.status == 0, f"holdfast get as {OTHER}: {ran}")
    ran = agent.ask("status", "--json", user=OTHER)
    check(list(json.loads(ran.out)["scopes"]) == ["node_bootstrap"], f"holdfast status as {OTHER}: {ran}")
    ran = node.machine.run("cat", f"{agent.files}/{SECTION}.json", user=OTHER)
    check(ran.status != 0, f"the files are open to {OTHER}: {ran}")


def agent_that_cannot_start_says_why(lab: Lab, node: Node) -> None:
    """In one line, with an exit status of its own; and its caller is not left without an answer for ever."""
    agent, machine = node.agent, node.machine
    arrival.configure(agent, '[access."*"]\ngroups = ["not-a-group"]\n')
    check(machine.run("systemctl", "restart", agent.unit).status != 0, "it started all the same")
    journal = arrival.journal_of(machine, agent.unit, "--priority=err")
    check("not-a-group" in journal and "Traceback" not in journal, journal)
    asked = ("systemctl", "show", "--property=ExecMainStatus", "--value", agent.unit)
    ended = f"it to end with {CONFIGURATION_IS_WRONG}"  # it is tried again each second, and has no status meanwhile
    machine.until(lambda: machine.good(*asked).strip() == CONFIGURATION_IS_WRONG, WITHIN_S, ended)
    arrival.configure(agent, MORE)
    machine.good("systemctl", "restart", agent.unit)
    agent.until_current()


def another_unit_is_reloaded_by_way_of_a_path_unit(lab: Lab, node: Node) -> None:
    machine, agent = node.machine, node.agent
    machine.run("rm", "/run/web-reloaded")
    agent.declare_next()
    reloaded = ("test", "-s", "/run/web-reloaded")
    machine.until(lambda: machine.run(*reloaded).status == 0, WITHIN_S, "web.service to be reloaded")
    machine.until(lambda: _was_told(agent), WITHIN_S, "the agent to know that web.service was reloaded", every_s=0.3)
    machine.good("systemctl", "is-active", "web.service")


def unit_that_does_not_run_is_not_told_and_is_once_it_runs(lab: Lab, node: Node) -> None:
    """Stopped, it is left so, and nobody calls that a success; ended by itself after its start, neither."""
    machine, agent = node.machine, node.agent
    machine.good("systemctl", "stop", "web.service")
    agent.declare_next()
    machine.until(lambda: _outcome(agent) == "not_running", WITHIN_S, "web.service to be not running", every_s=0.3)
    check(machine.run("systemctl", "is-active", "web.service").status != 0, "web.service was started")
    check(not agent.status["services"]["web"]["up_to_date"], "a service that was not told is up to date")
    machine.good("systemctl", "start", "web.service")
    machine.until(lambda: _was_told(agent), WITHIN_S, "web.service to be told once it runs", every_s=0.3)


def service_that_must_wait_starts_once_its_configuration_is_active(lab: Lab, node: Node) -> None:
    machine = node.machine
    machine.write("/etc/systemd/system/late.service", LATE.format(scope=node.agent.scope, section=SECTION))
    machine.good("systemctl", "daemon-reload")
    machine.good("systemctl", "stop", "holdfast-agent-wait.service", "holdfast-agent.service")
    machine.good("systemctl", "start", "late.service")
    read = arrival.journal_of(machine, "late")
    check(str(node.agent.port) in read, read)


def sandbox_leaves_little_exposed(lab: Lab, node: Node) -> None:
    worst = f"--threshold={GREATEST_EXPOSURE}"
    node.machine.good("systemd-analyze", "security", "--no-pager", worst, f"{node.agent.unit}.service")
    status = f"/proc/{node.agent.main_pid()}/status"
    facts = dict(line.split(":\t", 1) for line in node.machine.good("cat", status).splitlines() if ":\t" in line)
    check(int(facts["CapEff"], 16) == 0 and int(facts["CapBnd"], 16) == 0, f"capabilities: {facts['CapEff']}")
    check(facts["NoNewPrivs"] == "1" and facts["Seccomp"] == "2", json.dumps(facts))
    check(facts["Uid"].split()[0] != "0", facts["Uid"])


STEPS = (
    Each(ordinary_user_of_the_group_reads),
    Each(any_program_reads_the_files_of_a_config),
    Each(user_without_access_is_kept_out),
    Each(access_table_hides_a_scope_from_one_of_the_group),
    Each(agent_that_cannot_start_says_why),
    Each(another_unit_is_reloaded_by_way_of_a_path_unit),
    Each(unit_that_does_not_run_is_not_told_and_is_once_it_runs),
    Each(service_that_must_wait_starts_once_its_configuration_is_active),
    Each(sandbox_leaves_little_exposed),
)


def _was_told(agent: Agent) -> bool:
    web = agent.status["services"]["web"]
    return bool(web["answer_ok"] and web["up_to_date"])


def _outcome(agent: Agent) -> str:
    return str(agent.status["services"]["web"]["outcome"])
