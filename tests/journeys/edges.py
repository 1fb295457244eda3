"""A fleet of edge nodes as processes beside a real coordinator, for journeys of changes: routes, and a proxy by each.

    with edges.running(folder, 4) as fleet:
        fleet.declare("second.example")
        fleet.lab.good("apply", "-f", fleet.declared, "--yes", "--wait")
        fleet.hosts("edge-1")              what the files of a node say

The proxy of each node refuses `forbidden.example` when it is asked beforehand, and is not well with `damaging.example`
once it runs. What a test adds to an agent.toml, and to what is declared, comes beside that.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.holdfast import operator_lab
from tests.holdfast.operator_lab import Lab
from tests.journeys.gateway import WITHIN_S, Gateway
from tests.world.pauses import pauses
from wire.operators.change_answers import ChangeDetail, ChangeNews
from wire.operators.fleet_answers import MemberDetail

STATE = """\
kind: Cluster
id: prod
spec: {coordinators: COORDINATORS}
---
{kind: Organization, id: acme, spec: {name: Acme}}
---
kind: Service
id: web
spec:
  organization: acme
  runs_on: {nodes: [core]}
  endpoints: [{name: http, protocol: http, host: localhost, port: 8080, exposed: true}]
---
{kind: Node, id: core, spec: {roles: [egress_service], organizations: [acme]}}
---
{kind: DegradedModePolicy, id: standard, spec: {allow: [continue_services, preserve_routes]}}
"""
EDGE = "{{kind: Node, id: {name}, spec: {{roles: [ingress], organizations: [acme]}}}}\n"
ROUTE = "{{kind: Route, id: front, spec: {{organization: acme, service: web, match: {{hosts: [{host}]}}}}}}\n"
POLICY = "{{kind: RolloutPolicy, id: standard, spec: {{{spec}}}}}\n"
Way = Callable[[int], int]
THREE_RINGS = "bake_s: 1, rings: [{nodes: 1}, {percent: 50}, {percent: 100}]"
PROXY = """
[[service]]
name = "proxy"
scopes = ["route_policy"]
validate = ["/bin/sh", "-c", "! grep -rqs forbidden.example . || {{ echo this host is not ours; exit 1; }}"]
check = ["/bin/sh", "-c", "! grep -rqs damaging.example {folder}/run/active/ || {{ echo 502 all the way; exit 1; }}"]
check_interval_s = 1
"""


@dataclass
class Edges:
    """`more`: of each agent.toml, with {folder}. `by_way_of`: the port behind which the coordinator is, if another.
    `coordinators`: what is declared of them.
    """

    folder: Path
    lab: Lab
    names: Sequence[str]
    more: str = PROXY
    by_way_of: int = 0
    coordinators: Sequence[str] = ("https://localhost:7443",)
    nodes: dict[str, Gateway] = field(default_factory=dict)

    @property
    def declared(self) -> Path:
        return self.lab.folder / "declared"

    def declare(self, host: str, *, policy: str = THREE_RINGS) -> None:
        """The files; nothing is applied."""
        urls = [f"https://localhost:{self.by_way_of}"] if self.by_way_of else self.coordinators
        state = STATE.replace("COORDINATORS", json.dumps(list(urls)))
        documents = [state, *(EDGE.format(name=name) for name in self.names)]
        documents += [ROUTE.format(host=host), POLICY.format(spec=policy)]
        self.declared.mkdir(exist_ok=True)
        (self.declared / "fabric.yaml").write_text("---\n".join(documents))

    def declare_more(self, name: str, text: str) -> None:
        """Beside the fabric; nothing is applied, and nothing is taken away."""
        (self.declared / f"{name}.yaml").write_text(text)

    def apply(self, *options: object) -> str:
        """The change that it began."""
        answer = self.lab.good("apply", "-f", self.declared, "--yes", "--json", *options).json
        return answer["change"]

    def change(self, name: str) -> dict:
        return self.lab.asked.get(ChangeDetail, "changes", name).to_value()

    def enrol(self, name: str) -> Gateway:
        node = Gateway(self.folder / name, self.lab, node_id=name, by_way_of=self.by_way_of)
        with (node.folder / "agent.toml").open("a") as file:
            file.write(self.more.format(folder=node.folder))
        self.nodes[name] = node
        node.enrol()
        return node

    def hosts(self, name: str) -> list[str]:
        """As the proxy of the node reads them."""
        files = self.nodes[name].folder / "run" / "active" / "routes.json"
        return json.loads(files.read_text())["front"]["match"]["hosts"] if files.exists() else []

    def run(self, host: str) -> list[str]:
        """The nodes whose proxies go by it."""
        return [name for name in self.nodes if self.hosts(name) == [host]]

    def file(self, name: str, path: str) -> str:
        """Of a node, as a program there reads it; nothing where it is not."""
        place = self.nodes[name].folder / "run" / "active" / path
        return place.read_text() if place.exists() else ""

    def having(self, path: str, words: str) -> list[str]:
        """The nodes of which the file has these words."""
        return [name for name in self.nodes if words in self.file(name, path)]

    def until(self, holds: Callable[[], bool]) -> None:
        """Several programs do something about it; looking is a file or a question to each, and no process."""
        end, pause = time.monotonic() + WITHIN_S, pauses()
        while not holds():
            assert time.monotonic() < end, self.words()
            time.sleep(next(pause))

    def until_state(self, change: str, *states: str) -> dict:
        """As the coordinator says what is new: it holds the question until then."""
        end = time.monotonic() + WITHIN_S
        news = self.lab.asked.wait(ChangeNews, "changes", change, "wait")
        while news.state not in states:
            assert time.monotonic() < end, self.words()
            news = self.lab.asked.wait(ChangeNews, "changes", change, "wait", seen=news.mark)
        return self.change(change)

    def until_all_run(self, host: str) -> None:
        self.until(lambda: len(self.run(host)) == len(self.nodes))

    def until_all_told(self) -> None:
        """The coordinator knows from each node that it is active, and by the same report what its services can take.
        That comes a second after a node has become so; an apply before is judged by the nodes alone.
        """
        self.until(lambda: all(self._told(name) == "active" for name in self.nodes))

    def _told(self, name: str) -> str:
        return self.lab.asked.get(MemberDetail, "nodes", name).state

    def words(self) -> str:
        logs = [self.lab.log(), *(node.log()[-3000:] for node in self.nodes.values())]
        return "\n\n".join(logs)


@contextmanager
def running(
    folder: Path, count: int, *init: object, more: str = PROXY, state: str = "", way: Way | None = None
) -> Iterator[Edges]:
    """All of them members, with `first.example`; `init`: of the cluster; `state`: more that is declared from the
    beginning; `way`: what leads nodes to the coordinator's port, and gives its own.
    """
    (folder / "coordinator").mkdir()
    with ExitStack() as stack:
        lab = stack.enter_context(operator_lab.running(folder / "coordinator", *init))
        port = way(lab.ports["fleet"]) if way is not None else 0
        fleet = Edges(folder, lab, [f"edge-{number}" for number in range(1, count + 1)], more, port)
        fleet.declare("first.example")
        if state:
            fleet.declare_more("more", state)
        fleet.apply("-m", "the first routes")
        for name in fleet.names:
            fleet.enrol(name)
            stack.callback(fleet.nodes[name].kill)
        fleet.until_all_run("first.example")
        yield fleet
