"""examples/consumers, literally, with the programs of Debian's packages as root's units.

All of them live through it side by side: what is declared first, a change, a mistake that each one's own checker
refuses, one reboot without a coordinator, and the end of what is declared.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.citations import ROOT
from tests.systemd import arrival
from tests.systemd.lab import WITHIN_S, Lab, Node
from tests.systemd.step import Once, check

EXAMPLES = ROOT / "examples/consumers"
EVERYWHERE, NOWHERE = "roles: [ingress]", "labels: {app: of-nobody}"
IN_EACH = ("systemctl daemon-reload", "holdfast-agent --check", "systemctl restart holdfast-agent")
"""Lines of every README, in this order; others stand between them."""
AT_NGINX = """\
import urllib.request as u
r = u.urlopen(u.Request("http://127.0.0.1/", headers={"Host": "edge.example.org"}))
print(r.headers["Served-By"], r.read().decode())
"""
AT_UNBOUND = """\
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(2)
question = b"".join(bytes([len(part)]) + part for part in (b"edge", b"example", b"org")) + bytes([0, 0, 16, 0, 1])
s.sendto(bytes([7, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0]) + question, ("127.0.0.1", 53))
print(s.recv(512).decode("ascii", "replace"))
"""
OF_ITS_PROCESS = 'tr "\\0" "\\n" < /proc/$(systemctl show --property=MainPID --value banner)/environ'


@dataclass(frozen=True)
class Consumer:
    """`name` is its folder's, `unit` also its service's in agent.toml. `asked`: a command on the node that shows what
    it goes by. `mistake`: what is replaced by what, so that it refuses it with these words. `told`: the agent tells it.
    """

    name: str
    scope: str
    unit: str
    asked: tuple[str, ...]
    mistake: tuple[str, str]
    words: str
    shows: str = "{edition} edition"
    left: str = ""  # what it shows of its last edition once that is withdrawn
    stops: bool = False  # then
    told: bool = True

    @property
    def folder(self) -> Path:
        return EXAMPLES / self.name

    @property
    def files(self) -> dict[str, str]:
        """What is declared, by path."""
        top = self.folder / "declared"
        return {str(path.relative_to(top)): path.read_text() for path in top.rglob("*.*")}

    @property
    def typed(self) -> str:
        """What its README has an administrator type."""
        return "\n".join(re.findall(r"^    (.+)$", (self.folder / "README.md").read_text(), re.MULTILINE))

    @property
    def pieces(self) -> list[str]:
        """Of that what stands before, between and after the lines of each README."""
        return re.split(f"^(?:{'|'.join(IN_EACH)})$", self.typed, flags=re.MULTILINE)

    def shown(self, node: Node) -> str:
        return node.machine.run(*self.asked).out


def _fetch(place: str) -> tuple[str, ...]:
    return ("curl", "--silent", "--max-time", "5", f"http://127.0.0.1:{place}")


NGINX = Consumer(
    "nginx", "config/edge-nginx", "nginx", ("python3", "-c", AT_NGINX), ("return", "retrun"), "retrun",
    shows="{node} edge, {edition} edition",
)  # fmt: skip
HAPROXY = Consumer(
    "haproxy", "config/edge-haproxy", "haproxy", _fetch("8080/"), ("http-request", "http-requst"), "edge.cfg:3",
    left="{edition} edition",
)  # fmt: skip
UNBOUND = Consumer(
    "unbound", "config/edge-unbound", "unbound", ("python3", "-c", AT_UNBOUND), ("local-zone", "lokal-zone"), "lokal",
)  # fmt: skip
PROMETHEUS = Consumer(
    "prometheus", "config/metrics", "prometheus", _fetch("9090/api/v1/rules"), ("} == 0", "} = 0"), "EdgeDown",
    left="{edition} edition",
)  # fmt: skip
ENVIRONMENT = Consumer(
    "environment", "config/banner", "banner", ("sh", "-c", OF_ITS_PROCESS), ("BANNER=", "BANER="), "banner: exit 1",
    stops=True,
)  # fmt: skip
EXEC = Consumer(
    "exec", "config/greeter", "greeter", _fetch("8097/"), ("PORT: ", "PORT: 9"), "a PORT of 1024", stops=True,
)  # fmt: skip
PYTHON = Consumer(
    "python", "config/limits", "limits", ("journalctl", "--boot", "-t", "limits.py", "--lines=1", "--output=cat"),
    ("10", '"many"'), "no limits", told=False, left="its own",
)  # fmt: skip
SHELL = Consumer(
    "shell", "config/networks", "networks", ("cat", "/run/networks/allowed.txt"), ("192.0.2.0/24", "everybody"),
    "everybody", told=False,
)  # fmt: skip
CONSUMERS = (NGINX, HAPROXY, UNBOUND, PROMETHEUS, ENVIRONMENT, EXEC, PYTHON, SHELL)


def programs_live_by_what_is_declared(lab: Lab) -> None:
    """examples/consumers: a change, a mistake, a reboot without a coordinator, and the end of it"""
    _let_all_judge(lab)
    _declare(lab, "first")
    _on_all(lab, _prepare)
    _on_all(lab, lambda node: _until_shown(node, "first"))
    _on_all(lab, _until_told)
    _declare(lab, "second")
    _on_all(lab, lambda node: _until_shown(node, "second"))
    _declare(lab, "third", mistaken=True)
    _on_all(lab, _until_refused)
    _declare(lab, "fourth")
    _on_all(lab, lambda node: _until_shown(node, "fourth"))
    _on_all(lab, _reboot_cut_off)
    _declare(lab, "fourth", where=NOWHERE)
    _on_all(lab, _until_gone)
    _on_all(lab, _leave)


STEPS = (Once(programs_live_by_what_is_declared),)


def _let_all_judge(lab: Lab) -> None:
    """From here on changes are not guarded: each program's checker is to refuse on each machine, and a guarded change
    is halted by the first. What comes after has changes that follow one another at once.
    """
    machine = lab.control.machine
    machine.good("sh", "-c", "printf '\\n[settings]\\nguarded_changes = false\\n' >> /etc/holdfast/coordinator.toml")
    machine.good("systemctl", "restart", "holdfast-coordinator")


def _on_all(lab: Lab, act: Callable[[Node], None]) -> None:
    with ThreadPoolExecutor(len(lab.nodes)) as pool:
        list(pool.map(act, lab.nodes))


def _declare(lab: Lab, edition: str, *, mistaken: bool = False, where: str = EVERYWHERE) -> None:
    files = {}
    for consumer in CONSUMERS:
        for name, text in consumer.files.items():
            edited = text.replace("first edition", f"{edition} edition").replace(EVERYWHERE, where)
            files[name] = edited.replace(*consumer.mistake) if mistaken else edited
    lab.control.apply_folder(files)


def _prepare(node: Node) -> None:
    """What each README says, as somebody types it who sets all of them up: what stands in each of them, once."""
    machine = node.machine
    arrival.configure(node.agent)
    for consumer in CONSUMERS:
        for path in consumer.folder.rglob("*"):
            if path.is_file():
                machine.write(f"/srv/{consumer.name}/{path.relative_to(consumer.folder)}", path.read_text())
    for number, command in enumerate((*IN_EACH, "")):
        for consumer in CONSUMERS:
            machine.good("sh", "-e", "-c", f"cd /srv/{consumer.name}\n{consumer.pieces[number]}")
        machine.good("sh", "-c", command)
    node.agent.until_a_member()


def _until_shown(node: Node, edition: str) -> None:
    for consumer in CONSUMERS:
        wanted = consumer.shows.format(node=node.agent.node_id, edition=edition)
        _until_it_shows(node, consumer, wanted)


def _until_it_shows(node: Node, consumer: Consumer, wanted: str) -> None:
    seen: list[str] = []

    def is_shown() -> bool:
        seen[:] = [consumer.shown(node)]
        return wanted in seen[0]

    _until(node, is_shown, lambda: f"{consumer.name} to show {wanted}, not {seen}")


def _until(node: Node, holds: Callable[[], object], said: Callable[[], str], every_s: float = 0.3) -> None:
    """As a machine waits, with the last that was seen where it is in vain."""
    try:
        node.machine.until(holds, WITHIN_S, "it", every_s=every_s)
    except Exception as error:
        raise AssertionError(f"{node.machine.name}: waited for {said()}") from error


def _until_told(node: Node) -> None:
    def are_told() -> bool:
        services = node.agent.status["services"]
        found = [services[consumer.unit] for consumer in CONSUMERS if consumer.told]
        return all(service["answer_ok"] and service["up_to_date"] for service in found)

    _until(node, are_told, lambda: f"all of them to have been told: {node.agent.status['services']}")


def _until_refused(node: Node) -> None:
    """Each goes by what it went by, also when it is started anew; and the operator is told."""
    agent = node.agent
    for consumer in CONSUMERS:
        _until_it_refuses(node, consumer)
    told = ("nodes", "events", agent.node_id)
    _until(node, lambda: _has_all(agent.control.ctl(*told), CONSUMERS), lambda: agent.control.ctl(*told), every_s=1)
    node.machine.good("systemctl", "restart", *(consumer.unit for consumer in CONSUMERS))
    _until_shown(node, "second")


def _until_it_refuses(node: Node, consumer: Consumer) -> None:
    """By its own words."""

    def explained() -> str:
        return node.agent.ask("explain", consumer.scope).out

    def rejected() -> Mapping[str, object]:
        return node.agent.status["scopes"][consumer.scope]["last_rejected"] or {}

    _until(node, rejected, lambda: f"{consumer.name} to refuse it: {explained()}")
    check(rejected()["reason"] == "validator_refused", str(rejected()))
    check(consumer.words in explained(), explained())


def _has_all(said: str, consumers: Iterable[Consumer]) -> bool:
    return all(consumer.words in said for consumer in consumers)


def _reboot_cut_off(node: Node) -> None:
    """With nobody to ask: each starts on what the agent keeps, and not before that lies there."""
    machine = node.machine
    machine.switch.unplug(machine.name)
    try:
        machine.cut_power()
        machine.boot()
        _until_shown(node, "fourth")
        for consumer in CONSUMERS:
            check(
                machine.run("systemctl", "is-failed", consumer.unit).status != 0, f"{consumer.unit} failed on its way"
            )
    finally:
        machine.switch.plug(machine.name)


def _until_gone(node: Node) -> None:
    """Of each what its README says."""
    for consumer in CONSUMERS:
        _until_it_is_without(node, consumer)

    def failed() -> bool:
        services = node.agent.status["services"]
        return all(services[consumer.unit]["outcome"] == "failed" for consumer in (HAPROXY, PROMETHEUS))

    _until(node, failed, lambda: f"those that have nothing to read to say so: {node.agent.status['services']}")


def _until_it_is_without(node: Node, consumer: Consumer) -> None:
    machine, place = node.machine, f"{node.agent.run_folder}/active/{consumer.scope}"
    _until(node, lambda: machine.run("test", "-e", place).status != 0, lambda: f"{place} to go")
    if consumer.left:
        _until_it_shows(node, consumer, consumer.left.format(edition="fourth"))
    else:
        _until(node, lambda: "edition" not in consumer.shown(node), lambda: f"{consumer.name} to show nothing of it")
    runs = lambda: machine.run("systemctl", "is-active", consumer.unit).out.strip() == "active"  # noqa: E731
    _until(node, lambda: runs() is not consumer.stops, lambda: f"{consumer.unit} to run or stop, and it runs: {runs()}")


def _leave(node: Node) -> None:
    """As it was before, with nginx as Debian has it."""
    machine = node.machine
    others = [consumer.unit for consumer in CONSUMERS if consumer is not NGINX]
    machine.good("systemctl", "disable", "--now", *others)
    paths = re.findall(r"holdfast-\S+\.path", "\n".join(consumer.typed for consumer in CONSUMERS))
    machine.good("systemctl", "disable", "--now", *paths)
    machine.good("rm", "-r", "/etc/systemd/system/nginx.service.d", "/etc/nginx/conf.d/holdfast.conf")
    machine.good("systemctl", "daemon-reload")
    machine.good("systemctl", "reset-failed")
    machine.good("systemctl", "restart", "nginx")
    arrival.configure(node.agent)
    machine.good("systemctl", "restart", node.agent.unit)
