"""examples/consumers, literally, with the programs of Debian's packages as root's units."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.citations import ROOT
from tests.systemd import arrival
from tests.systemd.lab import WITHIN_S, Agent, Lab, Node
from tests.systemd.machines import Machine
from tests.systemd.step import Once, check

NGINX = ROOT / "examples/consumers/nginx"
SCOPE = "config/edge-nginx"
ASK = (
    "import urllib.request as u; r = u.urlopen(u.Request('http://127.0.0.1/', headers={'Host': 'edge.example.org'})); "
)
ASK += "print(r.headers['Served-By'], r.read().decode(), end='')"
OF_NOBODY = "labels: {app: of-nobody}"


def nginx_lives_by_what_is_declared(lab: Lab) -> None:
    """examples/consumers/nginx: a change, a mistake, a reboot without a coordinator, and the end of it"""
    with ThreadPoolExecutor(len(lab.nodes)) as pool:
        list(pool.map(_prepare, lab.nodes))
        _declare(lab, "first")
        list(pool.map(lambda node: _until_served(node, "first"), lab.nodes))
        list(pool.map(lambda node: _until_told(node.agent), lab.nodes))
        _declare(lab, "second")
        list(pool.map(lambda node: _until_served(node, "second"), lab.nodes))
        _declare(lab, "third", ("return", "retrun"))
        list(pool.map(_until_refused, lab.nodes))
        _declare(lab, "fourth")
        list(pool.map(lambda node: _until_served(node, "fourth"), lab.nodes))
        list(pool.map(_reboot_cut_off, lab.nodes))
        _declare(lab, "fourth", ("roles: [ingress]", OF_NOBODY))
        list(pool.map(_until_gone, lab.nodes))


STEPS = (Once(nginx_lives_by_what_is_declared),)


def _prepare(node: Node) -> None:
    """What its README says, word by word."""
    machine = node.machine
    arrival.configure(node.agent)
    for path in NGINX.rglob("*"):
        if path.is_file():
            machine.write(f"/srv/nginx/{path.relative_to(NGINX)}", path.read_text())
    block = "\n".join(re.findall(r"^    (.+)$", (NGINX / "README.md").read_text(), re.MULTILINE))
    refused = machine.run("holdfast-agent", "--check")
    check(refused.status == 0, f"before it: {refused}")
    machine.good("sh", "-e", "-c", f"cd /srv/nginx\n{block}")
    node.agent.until_a_member()


def _declare(lab: Lab, edition: str, changed: tuple[str, str] = ("", "")) -> None:
    files = {str(path.relative_to(NGINX / "declared")): path for path in (NGINX / "declared").rglob("*.*")}
    texts = {name: path.read_text().replace("first edition", f"{edition} edition") for name, path in files.items()}
    lab.control.apply_folder({name: text.replace(*changed) if changed[0] else text for name, text in texts.items()})


def _served(machine: Machine) -> str:
    return machine.run("python3", "-c", ASK).out.strip()


def _until_served(node: Node, edition: str) -> None:
    wanted = f"{node.agent.node_id} edge, {edition} edition"
    node.machine.until(lambda: _served(node.machine) == wanted, WITHIN_S, f"nginx to serve {wanted}", every_s=0.3)


def _until_told(agent: Agent) -> None:
    def is_told() -> bool:
        found = agent.status["services"]["nginx"]
        return bool(found["answer_ok"] and found["up_to_date"])

    agent.machine.until(is_told, WITHIN_S, "nginx to have been reloaded", every_s=0.3)


def _until_refused(node: Node) -> None:
    """By nginx's own words, which reach the operator; and it serves what it served, also when it is started anew."""
    agent, machine = node.agent, node.machine
    refused = lambda: "retrun" in agent.ask("explain", SCOPE).out  # noqa: E731
    machine.until(refused, WITHIN_S, "nginx to refuse it", every_s=0.5)
    rejected = agent.status["scopes"][SCOPE]["last_rejected"]
    check(rejected["reason"] == "validator_refused", str(rejected))
    told = ("nodes", "events", agent.node_id)
    machine.until(lambda: "retrun" in agent.control.ctl(*told), WITHIN_S, "the operator to be told", every_s=0.5)
    machine.good("systemctl", "restart", "nginx")
    _until_served(node, "second")


def _reboot_cut_off(node: Node) -> None:
    """With nobody to ask: nginx starts on what the agent keeps, and not before that lies there."""
    machine = node.machine
    machine.switch.unplug(machine.name)
    try:
        machine.cut_power()
        machine.boot()
        _until_served(node, "fourth")
        check(machine.run("systemctl", "is-failed", "nginx").status != 0, "nginx failed on its way")
    finally:
        machine.switch.plug(machine.name)


def _until_gone(node: Node) -> None:
    machine = node.machine
    place = Path(node.agent.run_folder) / "active" / SCOPE
    machine.until(lambda: machine.run("test", "-e", str(place)).status != 0, WITHIN_S, f"{place} to go", every_s=0.3)
    gone = lambda: "edition" not in _served(machine)  # noqa: E731
    machine.until(gone, WITHIN_S, "nginx to serve it no more", every_s=0.3)
    machine.good("systemctl", "is-active", "nginx")
    machine.good("rm", "-r", "/etc/systemd/system/nginx.service.d", "/etc/nginx/conf.d/holdfast.conf")
    machine.good("systemctl", "disable", "--now", "holdfast-validate@nginx.path", "holdfast-reload@nginx.service.path")
    machine.good("systemctl", "daemon-reload")
    arrival.configure(node.agent)
    machine.good("systemctl", "restart", node.agent.unit)
