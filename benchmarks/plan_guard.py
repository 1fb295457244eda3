"""What the guard of an apply costs beside the compilation that it looks at (coordinator/expected/plan_guard.py).

    .venv/bin/python -m benchmarks.plan_guard
    .venv/bin/python -m benchmarks.plan_guard --nodes 1000 --rounds 9

A plan that touches every node of a fleet is compiled before and after, once with the guard looking at each pair and
once without, in turns, so that both meet the same machine, and by the processor's time, of which other work takes
little. Ratios are of medians; one line a plan.

    routes     each of the fleet's routes is another: every core node's map, in up to 64 parts
    one route  one of them: one small part of each map
    services   the settings of every service, with a table of 200 entries each
    files      a Config of 100 files for all, and a template of each node's own. The first is compiled once for all, so
               its share is large and says little: a pair costs a quarter of what one of a map does
"""

import argparse
import gc
import hashlib
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from coordinator.configs.compiled_pairs import CompiledPair, compiled_pairs
from coordinator.declared import contents
from coordinator.declared.change_impact import affected_scopes
from coordinator.declared.kinds import (
    Config,
    ConfigFile,
    FileContent,
    Node,
    Organization,
    Resource,
    Route,
    RouteMatch,
    Selector,
    Service,
    ServiceEndpoint,
)
from coordinator.declared.model import Key, MemberEntry, Model
from coordinator.expected.plan_guard import PlanGuard

ORGANIZATIONS, SERVICES, ROUTES, FILES = 20, 200, 2_000, 100
ALLOWED_PERCENT = 10


@dataclass
class Parts:
    """What files hold."""

    kept: dict[str, bytes]

    def file(self, data: bytes, names: tuple[str, ...] = ()) -> ConfigFile:
        parts = contents.split(data)
        hashes = tuple(hashlib.sha256(part).hexdigest() for part in parts)
        self.kept.update(zip(hashes, parts, strict=True))
        return ConfigFile(content=FileContent(len(data), hashes, names), template=bool(names))

    def read(self, sha256: str) -> bytes:
        return self.kept[sha256]


def fleet(parts: Parts, nodes: int) -> Model:
    """Core nodes at the egress of one of twenty organizations each, a hundred routes and ten services an organization,
    and two Configs for all.
    """
    found: list[Resource] = [Organization(f"org{number}") for number in range(ORGANIZATIONS)]
    found += [_node(number) for number in range(nodes)]
    found += [_service(number, 0) for number in range(SERVICES)]
    found += [_route(number, 3_600) for number in range(ROUTES)]
    found += [_files(parts, b"v1"), _template(parts, b"v1")]
    members = {f"n{number}": MemberEntry(f"n{number}", "data", "default", (b"der",)) for number in range(nodes)}
    return Model("prod", {resource.key: resource for resource in found}, members)


def _node(number: int) -> Node:
    organization = f"org{number % ORGANIZATIONS}"
    roles = ("core_mesh", "egress_service")
    return Node(f"n{number}", roles=roles, organizations=(organization,), labels={"rack": f"r{number % 40}"})


def _service(number: int, version: int) -> Service:
    table = {f"feature-{index}": {"weight": index, "on": bool(index % 2)} for index in range(200)}
    endpoint = ServiceEndpoint("http", "http", "localhost", 8_080, exposed=True)
    settings = {"version": version, "features": table}
    rack = Selector(labels={"rack": f"r{number % 40}"})
    return Service(f"s{number}", f"org{number % ORGANIZATIONS}", rack, "web", (endpoint,), settings)


def _route(number: int, ttl_s: int) -> Route:
    match = RouteMatch((f"www{number}.example", f"api{number}.example"), f"/v{number % 7}")
    organization = number % ORGANIZATIONS
    return Route(f"r{number}", f"org{organization}", f"s{organization}", match=match, ttl_s=ttl_s)


def _files(parts: Parts, version: bytes) -> Config:
    texts = {f"conf.d/{number}.conf": b"server %d %s;\n" % (number, version) * 50 for number in range(FILES)}
    return Config("edge", Selector(roles=("core_mesh",)), {path: parts.file(text) for path, text in texts.items()})


def _template(parts: Parts, version: bytes) -> Config:
    text = b"node ${node.id} " + version
    return Config("own", Selector(roles=("core_mesh",)), {"node.conf": parts.file(text, ("node.id",))})


def plans(parts: Parts, before: Model) -> Mapping[str, Model]:
    """What becomes of the fleet, by what changes."""

    def with_(*changed: Resource) -> Model:
        resources: dict[Key, Resource] = {**before.resources, **{resource.key: resource for resource in changed}}
        return replace(before, resources=resources)

    return {
        "routes": with_(*(_route(number, 1_800) for number in range(ROUTES))),
        "one route": with_(*(_route(number, 1_800) for number in range(ORGANIZATIONS))),
        "services": with_(*(_service(number, 1) for number in range(SERVICES))),
        "files": with_(_files(parts, b"v2"), _template(parts, b"v2")),
    }


def seconds(work: Callable[[], int]) -> tuple[float, int]:
    gc.collect()
    begun = time.process_time()
    count = work()
    return time.process_time() - begun, count


def measure(parts: Parts, before: Model, after: Model, rounds: int) -> tuple[float, float, int, int]:
    """Medians without and with the guard; how many pairs, and how many findings."""
    touched = affected_scopes(before, after)
    found = 0

    def compile_(look: Callable[[CompiledPair], object] | None) -> int:
        pairs = 0
        for pair in compiled_pairs(lambda _: before, lambda _: after, touched, parts.read):
            pairs += 1
            if look is not None:
                look(pair)
        return pairs

    def guarded() -> int:
        nonlocal found
        guard = PlanGuard(len(before.members))
        pairs = compile_(lambda pair: guard.look(*pair))
        found = len(guard.findings)
        return pairs

    bare, with_guard = [], []
    for _ in range(rounds):
        took, pairs = seconds(lambda: compile_(None))
        bare.append(took)
        with_guard.append(seconds(guarded)[0])
    return statistics.median(bare), statistics.median(with_guard), pairs, found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--nodes", type=int, default=1_000)
    options.add_argument("--rounds", type=int, default=5)
    chosen = options.parse_args()
    parts = Parts({})
    before = fleet(parts, chosen.nodes)
    sums = [0.0, 0.0]
    for name, after in plans(parts, before).items():
        bare, guarded, pairs, found = measure(parts, before, after, chosen.rounds)
        sums = [sums[0] + bare, sums[1] + guarded]
        print(
            f"{name}: {pairs} pairs of {chosen.nodes} nodes compiled in {bare * 1e3:.0f} ms, with the guard"
            f" {guarded * 1e3:.0f} ms: {(guarded / bare - 1) * 100:+.1f} %,"
            f" {(guarded - bare) / pairs * 1e6:.0f} us a pair; {found} findings"
        )
    percent = (sums[1] / sums[0] - 1) * 100
    verdict = "within" if percent <= ALLOWED_PERCENT else "BEYOND"
    print(f"all of them: {percent:+.1f} %, {verdict} {ALLOWED_PERCENT} %")


if __name__ == "__main__":
    main()
