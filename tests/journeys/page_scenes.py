"""What has to be so before a block of a page can be typed: declared files, nodes that joined, requests, keys."""

import json
import re
import shutil
from collections.abc import Callable

from tests.citations import ROOT
from tests.journeys.page_world import World
from tests.world import programs

FABRIC = """\
kind: Cluster
id: prod
spec: {coordinators: ["https://localhost:7443"]}
---
kind: Organization
id: acme
spec: {name: Acme}
---
kind: Node
id: gateway
spec:
  roles: [ingress]
  organizations: [acme]

---

kind: Service
id: web
spec:
  organization: acme
  runs_on: {roles: [egress_service]}
  endpoints: [{name: http, protocol: http, host: 127.0.0.1, port: 8080, exposed: true}]
---
kind: Route
id: web-in
spec: {organization: acme, service: web, match: {hosts: [www.acme.example]}}
---
kind: DegradedModePolicy
id: standard
spec: {allow: [continue_services, preserve_routes], max_duration_s: 86400, allow_unconfirmed_start: true}
"""
OLD = """\
kind: Node
id: store
spec: {roles: [storage_config], organizations: [acme]}
---
kind: StorageEndpoint
id: old
spec: {url: "https://old.example:443", node: store}
---
"""
EGRESS = OLD + "kind: Node\nid: egress\nspec: {roles: [egress_service], organizations: [acme]}\n"
ACTIVE = ("holdfast status --json", '"state": "active"')
BUNDLES = {
    "trust_bundle-4.hfs": lambda _: "bundles/trust_bundle-1.hfs",
    "trust_bundle-5.hfs": lambda _: "bundles/trust_bundle-2.hfs",
}
"""The bundles of a cluster that is younger than the page's."""


def fabric(world: World) -> None:
    world.file("fabric/fabric.yaml", world.here(FABRIC))


def token_brought(world: World, node: str = "gateway") -> None:
    """The token, the CA's file and the smallest agent.toml are on the node, whose agent runs."""
    shutil.move(world.at / "join.token", world.at / "etc/holdfast/join.token")
    world.agent_toml("prod", node)
    world.start("holdfast-agent")


def another_node(world: World) -> None:
    """Of whom only a role is revoked."""
    world.file("egress.yaml", EGRESS)
    world.good("holdfastctl apply -f egress.yaml --yes")


def next_ca_confirmed(world: World) -> None:
    world.until("holdfastctl coordinators ca status --json", '"unconfirmed": []', hinted=True)


def first_config_key(world: World) -> str:
    """As its file is named, which `init` made."""
    files = (world.at / "var/lib/holdfast-coordinator/keys").glob("config-*.pem")
    return min(files, key=lambda file: file.stat().st_mtime_ns).stem.removeprefix("config-")


def joined_anew(world: World) -> None:
    """A revoked node that was readmitted: a reset, a token, a join."""
    world.good("systemctl stop holdfast-agent")
    world.good("holdfast store reset-identity --yes gateway")
    joins_with_a_token(world)


def joins_with_a_token(world: World, node: str = "gateway") -> None:
    no_token(world)
    world.good(f"holdfastctl tokens create --node {node} --out join.token")
    token_brought(world, node)
    world.until(*ACTIVE)


def no_token(world: World) -> None:
    for place in ("join.token", "etc/holdfast/join.token"):
        (world.at / place).unlink(missing_ok=True)


def bundles_exported(world: World) -> None:
    world.good("holdfastctl trust export --to bundles")


def secrets_lost(world: World) -> None:
    """All but what a coordinator needs to start; and an owner brings a key on a stick."""
    shutil.copy(world.at / "alice.key", world.at / "media/usb")
    world.stop("holdfast-coordinator")
    keys = world.at / "var/lib/holdfast-coordinator/keys"
    for path in (keys / "seed", keys / "identity.pem", *keys.glob("config-*.pem")):
        path.unlink()
    world.start("holdfast-coordinator")
    world.until("holdfastctl status", "untrusted_history")


def no_request(world: World) -> None:
    for path in world.at.glob("*.json"):
        path.unlink()


def value(text: object) -> Callable[[World], str]:
    return lambda _: str(text)


def cluster_of_its_own(world: World) -> None:
    """What docs/keys.md takes for granted after its first block."""
    world.start("holdfast-coordinator")
    world.file("state.yaml", OLD + KEYS_STATE)
    world.good("holdfastctl apply -f state.yaml --yes")


def n7_joined(world: World) -> None:
    """Who is about to be revoked."""
    world.good("holdfastctl allow add n7")
    joins_with_a_token(world, "n7")
    world.memo["certificate"] = json.loads(world.good("holdfastctl nodes show n7 --json").out)["certificate_sha256"]


def mail_revoked_by_a_bundle(world: World) -> None:
    world.good('holdfastctl revoke service mail --reason "shut down"')
    world.good("holdfastctl trust export-request --root-key /media/usb/roots")


def certificate(world: World) -> str:
    return world.memo["certificate"]


KEYS_STATE = """\
kind: Node
id: n7
spec: {roles: [ingress], organizations: [acme]}
---
kind: Organization
id: acme
spec: {name: Acme}
---
kind: Node
id: n8
spec: {roles: [ingress], organizations: [acme]}
---
kind: Service
id: mail
spec:
  organization: acme
  runs_on: {roles: [egress_service]}
  endpoints: [{name: http, protocol: http, host: 127.0.0.1, port: 8080, exposed: true}]
"""


VECTORS = ROOT / "tests/vectors"
CONTEXT = VECTORS / "contexts/core.json"
WHEN = "--now 2027-12-05T16:00:00Z"
GOOD, BAD = f"{VECTORS}/documents/good-route-policy.hfs {WHEN}", f"documents/secret-url.hfs {WHEN}"


def cluster(world: World) -> None:
    world.good("holdfastctl init prod --url https://coordinator.example:7443 --root-keys-to /media/usb/roots")
    world.start("holdfast-coordinator")


def ca_beside(world: World) -> None:
    shutil.copy(world.at / "var/lib/holdfast-coordinator/tls/ca.pem", world.at / "ca.pem")


def copied(world: World) -> None:
    shutil.copy(world.at / "renew.json", world.at / "copy-of-renew.json")


def examples_alone(world: World) -> None:
    """And no cluster anywhere."""
    (world.at / "examples").symlink_to(ROOT / "examples")


def two_checkouts(world: World) -> None:
    """A repository with the example as its state, and a clone to work in."""
    work = world.at / "work"
    shutil.copytree(ROOT / "examples" / "expectations", work / "fabric")
    world.at = work
    git = "git -c user.name=a -c user.email=a@example -c init.defaultBranch=main"
    world.good(f"{git} init -q")
    world.good(f"{git} add .")
    world.good(f"{git} commit -q -m state")
    world.good("git checkout -q -b proposed")


def examples_beside(world: World) -> None:
    (world.at / "examples").symlink_to(ROOT / "examples")
    world.good("holdfastctl init fabric --url https://coordinator.example:7443 --root-keys-to /media/usb/roots")
    world.start("holdfast-coordinator")


def whole_node(world: World) -> None:
    """A member whose configuration is active."""
    cluster(world)
    fabric(world)
    world.good("holdfastctl apply -f fabric --yes")
    world.good("holdfastctl allow add gateway")
    joins_with_a_token(world)


def last_config_key(world: World) -> str:
    """The one that signs alone."""
    keys = json.loads(world.good("holdfastctl rotate status --json").out)["keys"]
    (key,) = (each["key_id"] for each in keys if each["purpose"] == "config" and each["status"] == "active")
    return str(key).removeprefix("sha256:")[:12]


def second_root_key(world: World) -> str:
    (file,) = (world.at / "media/usb2").glob("root-*.pub.pem")
    return file.name.removeprefix("root-").removesuffix(".pub.pem")


def second_root_file(world: World) -> str:
    return f"/media/usb2/root-{second_root_key(world)}"


SERVED = {
    "config/edge/nginx.conf": "worker_processes 4;\n",
    "config/edge/bin/check": "#!/bin/sh\nnginx -t\n\n",
    "config/app/env.json": '{"GREETING": "hello"}',
    "config/app/more.env": "# how much it says\nLEVEL=debug\n",
    "services/web/settings.json": '{"workers": 4}',
}


def plain_files(world: World) -> None:
    """Served by `holdfast dev` where the page's programs ask."""
    if "dev" in world.processes.running:
        return
    for name, text in SERVED.items():
        world.file(f"app/{name}", text, 0o755 if "/bin/" in name else 0o644)
    places = ["--socket", world.at / "run/holdfast/agent.sock", "--files", world.at / "run/holdfast/active"]
    command = [programs.folder() / "holdfast", "dev", world.at / "app", *places]
    world.processes.start("dev", command, {**world.environment, "PYTHONUNBUFFERED": "1"})
    world.until("holdfast status --json", '"active"')


EDGES = ("edge-1", "edge-2", "edge-3")
EDGE_ROUTE = """\
kind: Route
id: {id}
spec: {{organization: acme, service: web, match: {{hosts: [{host}]}}}}
"""
CHANGING = """\
kind: Organization
id: acme
---
kind: Node
id: core
spec: {roles: [egress_service], organizations: [acme]}
---
kind: Service
id: web
spec:
  organization: acme
  runs_on: {nodes: [core]}
  endpoints: [{name: http, protocol: http, host: 127.0.0.1, port: 8080, exposed: true}]
"""
QUICK = "kind: RolloutPolicy\nid: quick\nspec: {rings: [{nodes: 1}, {percent: 50}, {percent: 100}], bake_s: 1}\n"
EXPECTED = """\
kind: Expectation
id: edge-keeps-its-way-in
spec: {of: {roles: [ingress]}, scope: route_policy, pointer: /routes/web-in/match/hosts, is: {at_least: 1}}
"""
EDGE_SERVICE = """
[[service]]
name = "proxy"
scopes = ["route_policy"]
validate = ["/bin/sh", "-c", "! grep -rqs forbidden.example . || {{ echo not one of our hosts; exit 1; }}"]
check = ["/bin/sh", "-c", "! grep -rqs damaging.example {at}/active/ || {{ echo 502 all the way; exit 1; }}"]
check_interval_s = 1
"""


def edges(world: World) -> None:
    """Three nodes with a proxy each, which run what docs/changes.md begins with."""
    world.good("holdfastctl init prod --url https://coordinator.example:7443 --root-keys-to /media/usb/roots")
    shutil.move(world.at / "etc/holdfast/fabric", world.at / "fabric")
    world.start("holdfast-coordinator")
    nodes = [f"kind: Node\nid: {name}\nspec: {{roles: [ingress], organizations: [acme]}}\n" for name in EDGES]
    world.file("fabric/fabric.yaml", "---\n".join([CHANGING, *nodes]))
    world.file("fabric/routes.yaml", EDGE_ROUTE.format(id="web-in", host="www.acme.example"))
    world.file("fabric/rollout.yaml", QUICK)
    campaign = [EDGE_ROUTE.format(id=f"offer-{number}", host=f"offer-{number}.example") for number in range(12)]
    world.file("campaign/routes.yaml", "---\n".join(campaign))
    world.good("holdfastctl apply -f fabric --yes")
    for name in EDGES:
        _enrol(world, name)


def _enrol(world: World, name: str) -> None:
    at = world.at / name
    (at / "state").mkdir(parents=True, mode=0o700)
    (at / "run").mkdir()
    world.good(f"holdfastctl allow add {name}")
    world.good(f"holdfastctl tokens create --node {name} --out {name}/join.token")
    world.agent_toml("prod", name)
    text = (world.at / "etc/holdfast/agent.toml").read_text()
    for usual, here in (("var/lib/holdfast", "state"), ("etc/holdfast", ""), ("run/holdfast", "run")):
        text = text.replace(f'"{world.at}/{usual}', f'"{at}/{here}')
    ca = f'"{world.at}/var/lib/holdfast-coordinator/tls/ca.pem"'
    text = re.sub(r"^ca_file = .*$", f"ca_file = {ca}", text, flags=re.MULTILINE)
    file = world.file(f"{name}/agent.toml", text + EDGE_SERVICE.format(at=at / "run"))
    world.processes.start(name, [programs.folder() / "holdfast-agent", "--config", file], world.environment)
    world.until(f"holdfast status --json --socket {at}/run/agent.sock", '"state": "active"')


def expected(world: World) -> None:
    world.file("fabric/expected.yaml", EXPECTED)


def mended(world: World) -> None:
    """The files are right again, and without what was tried."""
    world.file("fabric/routes.yaml", EDGE_ROUTE.format(id="web-in", host="new.acme.example"))
    world.file("fabric/rollout.yaml", QUICK)


def plan_hash(world: World) -> str:
    """Of the plan that was just refused."""
    return re.search(r"--allow (sha256:[0-9a-f]+)", world.run("holdfastctl apply -f fabric --prune --yes").err)[1]
