"""Declared resources: read from YAML, or refused with file, line, field and remedy (rules S22, S23, S69, S78)."""

import base64
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from coordinator.declared import resources
from coordinator.declared.kinds import KINDS, Node, Organization, Selector, Service, restore
from coordinator.declared.model import Model
from coordinator.declared.references import faults_of
from coordinator.declared.resources import DeclaredProblem, InvalidResources

GOOD = """\
kind: Cluster
id: prod
spec: {coordinators: ["https://coord.example:7443"]}
---
kind: Organization
id: acme
---
kind: Node
id: n1
spec:
  roles: [egress_service, ingress]
  organizations: [acme]
  addresses: ["10.0.0.1:7444", "[fe80::1]:7444"]
  labels: {rack: r1, build: 0755, on: no}
---
kind: Service
id: web
spec:
  organization: acme
  runs_on: {nodes: [n1]}
  endpoints:
    - {name: http, protocol: http, host: web.acme.example, port: 8080, exposed: true}
  settings:
    threads: 4
    ratio: 0.5
    db: {password: {secret_ref: "vault:acme/db"}}
---
kind: Route
id: web
spec: {organization: acme, service: web, match: {hosts: [acme.example]}, qos: gold}
---
kind: QosPolicy
id: gold
spec: {organization: acme, classes: {voice: {priority: 7}}}
---
kind: StorageEndpoint
id: s1
spec: {url: "https://s1.example:443"}
---
kind: DegradedModePolicy
id: usual
spec: {allow: [continue_services, preserve_routes]}
---
kind: PeerPolicy
id: usual
spec: {most: 12}
---
kind: Site
id: default
spec: {description: the first}
---
kind: Config
id: edge
spec:
  to: {nodes: [n1]}
  files: {motd: {text: hello, mode: "0600"}, flags.json: {json: {a: [1, true]}, schema: flags.schema.json}}
---
kind: EntryPolicy
id: staff
spec:
  organization: acme
  networks: [192.0.2.0/24]
  issuers:
    - issuer: https://login.acme.example
      audiences: [web]
      jwks: {keys: [{kty: OKP, crv: Ed25519, kid: "1", x: 11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo}]}
    - {issuer: "https://other.acme.example", audiences: [web], jwks_in: {config: edge, file: flags.json}}
---
kind: EgressResource
id: plant
spec:
  organization: acme
  type: vpn_connection
  connector: office
  settings: {peer: 192.0.2.7, key: {secret_ref: "vault:plant"}}
  schema: {required: [peer], properties: {password: {required: [secret_ref]}}}
---
kind: EgressResource
id: office
spec: {organization: acme, type: connector}
---
kind: SessionPolicy
id: phones
spec:
  organization: acme
  session: {ttl_s: 3600, idle_s: 600, most: 2}
  tunnel: {mode: split, networks: [192.0.2.0/24], dns: [192.0.2.53], domains: [corp.example]}
---
kind: RolloutPolicy
id: careful
spec:
  applies_to: {labels: {rack: r1}}
  rings: [{nodes: 1}, {percent: 100, of: {nodes: [n1]}}, {percent: 10}, {percent: 100}]
  bake_s: 60
  on_failure: revert
  approvals: 2
---
kind: Expectation
id: threads
spec:
  scope: service_assignment/web
  pointer: /services/web/settings/threads
  is: {at_least: 1}
"""


def problems(text: str, *, together: bool = True) -> list[DeclaredProblem]:
    with pytest.raises(InvalidResources) as caught:
        declared = resources.read({"a.yaml": text})
        if together:
            resources.check(declared, {}, "prod")
    return list(caught.value.problems)


def only(text: str) -> tuple[int, str, str, str]:
    (problem,) = problems(text)
    assert problem.file == "a.yaml" and problem.remedy
    return problem.line, problem.field, problem.message, problem.remedy


def replaced(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new, 1)


def test_every_kind_is_read_and_restored() -> None:
    declared = resources.read({"a.yaml": GOOD})
    resources.check(declared, {}, "prod")
    assert {kind for kind, _ in declared} == {kind.KIND for kind in KINDS}
    for (kind, id_), each in declared.items():
        assert restore(kind, id_, each.resource.spec()) == each.resource


def test_yaml_is_what_it_looks_like() -> None:
    node = resources.read({"a.yaml": GOOD})["Node", "n1"].resource
    assert isinstance(node, Node)
    assert node.labels == {"rack": "r1", "build": "0755", "on": "no"}
    assert node.roles == ("egress_service", "ingress")


def test_the_order_of_files_and_members_is_nothing() -> None:
    parts = GOOD.split("---\n")
    one = {key: each.resource for key, each in resources.read({"a.yaml": GOOD}).items()}
    texts = {f"{number}.yaml": part for number, part in enumerate(reversed(parts))}
    assert {key: each.resource for key, each in resources.read(texts).items()} == one


@pytest.mark.parametrize(
    ("old", "new", "line", "field", "message", "remedy"),
    [
        ("kind: Node", "kind: Noed", 8, "kind", "Noed is no kind", "did you mean Node?"),
        ("id: n1", "id: N1", 9, "id", "must be an id", "a-z 0-9"),
        ("  roles: [egress_service", "  role: [egress_service", 11, "spec.role", "not a member", "did you mean roles?"),
        ("egress_service, ingress", "egress_servce, ingress", 11, "spec.roles[0]", "must be one of", "egress_service?"),
        ("egress_service, ingress", "ingress, ingress", 11, "spec.roles[1]", "twice", "remove one"),
        ("10.0.0.1:7444", "10.0.0.1", 13, "spec.addresses[0]", "host:port", "correct"),
        ("port: 8080", "port: 80800", 22, "spec.endpoints[0].port", "1 to 65535", "correct"),
        ("port: 8080", 'port: "8080"', 22, "spec.endpoints[0].port", "1 to 65535", "correct"),
        ("  organization: acme\n  runs_on", "  runs_on", 18, "spec.organization", "missing", "whose it is"),
        ("https://s1.example:443", "http://s1.example:443", 38, "spec.url", "https://host:port", "correct"),
        ("continue_services,", "rotate_trust_root,", 42, "spec.allow[0]", "one of", "choose"),
        ("    threads: 4", "    threads: 4\n    threads: 5", 25, "spec.settings.threads", "given before", "keep one"),
        ("    threads: 4", "    threads: &x 4", 24, "(document)", "anchors", "write the value out"),
        ("    threads: 4", "    threads: !!python/object:os.system {}", 24, "(document)", "tags", "plain"),
        ("    threads: 4", "    threads: 9007199254740993", 24, "spec.settings.threads", "2^53-1", "text"),
        ("    threads: 4", "    threads: -9007199254740992.0", 24, "spec.settings.threads", "2^53-1", "text"),
        ("  settings:", "  settings: [", 24, "(document)", "", "YAML"),
        ("id: acme\n---", "id: acme\nspce: {}\n---", 7, "spce", "not a member", "did you mean spec?"),
        ("kind: Organization\n", "", 5, "kind", "is missing", "known kinds"),
        ("id: acme\n", "", 5, "id", "is missing", "a-z 0-9"),
        ("id: acme\n---", "id: acme\n---\n[a]\n---", 8, "(document)", "a mapping", "`kind`, `id` and `spec`"),
        ("id: acme\n---", "id: acme\n---\n? [a]\n: b\n---", 8, "(document)", "must be text", "plain name"),
        ("description: the first", "description: a\0b", 50, "(document)", "U+0000", "remove"),
        ("description: the first", "description: a\ud800b", 50, "(document)", "U+D800", "remove"),
        ("    threads: 4", "    ? [a]\n    : 4", 24, "spec.settings", "must be text", "plain name"),
    ],
)  # fmt: skip
def test_an_error_names_file_line_field_and_remedy(old, new, line, field, message, remedy) -> None:
    (problem, *_) = problems(replaced(old, new), together=False)
    assert (problem.file, problem.field) == ("a.yaml", field)
    assert problem.line == line or message == ""
    assert message in problem.message and remedy in problem.remedy


@pytest.mark.parametrize(
    ("old", "new", "line", "field", "message"),
    [
        ("id: prod", "id: staging", 2, "id", "serves prod"),
        ("organizations: [acme]", "organizations: [acme, umbrella]", 12, "spec.organizations", "no Organization"),
        ("nodes: [n1]", "nodes: [n2]", 20, "spec.runs_on.nodes", "no Node n2"),
        ("runs_on: {nodes: [n1]}", "runs_on: {}", 20, "spec.runs_on", "selects no node"),
        ("roles: [egress_service, ingress]", "roles: [ingress]", 20, "spec.runs_on", "not the role egress_service"),
        ("organizations: [acme]", "organizations: []", 20, "spec.runs_on", "does not serve acme"),
        ("service: web", "service: wob", 30, "spec.service", "no Service wob"),
        ("qos: gold", "qos: silver", 30, "spec.qos", "no QosPolicy silver"),
        ("  labels:", "  site: berlin\n  labels:", 14, "spec.site", "no site berlin"),
        ('443"}', '443", replicates: [s1]}', 38, "spec.replicates", "copies from itself"),
        ("    threads: 4", "    x: [{organization_id: umbrella}]", 24, "spec.settings.x[0].organization_id", "umbr"),
        ("  labels:", "  kind: witness\n  labels:", 11, "spec.roles", "witness has no roles"),
    ],
)  # fmt: skip
def test_resources_hold_together(old, new, line, field, message) -> None:
    """rules K12, J27, S20: names lead somewhere, placements are possible, nothing crosses organizations."""
    found = problems(replaced(old, new))
    problem = next(each for each in found if each.field == field)
    assert problem.line == line
    assert message in problem.message


RINGS = "[{nodes: 1}, {percent: 100, of: {nodes: [n1]}}, {percent: 10}, {percent: 100}]"


@pytest.mark.parametrize(
    ("old", "new", "field", "message", "remedy"),
    [
        (RINGS, "[{nodes: 1}, {percent: 99}]", "spec.rings", "never reach all", "end with {percent: 100}"),
        (RINGS, "[{percent: 100, of: {nodes: [n1]}}]", "spec.rings", "never reach all", "without `of`"),
        (RINGS, "[]", "spec.rings", "never reach all", "end with {percent: 100}"),
        (RINGS, "[{percent: 100}, {percent: 100}]", "spec.rings[1]", "100 does not rise above 100", "of all so far"),
        (RINGS, "[{nodes: 5}, {percent: 9}, {nodes: 5}, {percent: 100}]", "spec.rings[2]", "5 does not rise", "above"),
        (RINGS, "[{percent: 101}]", "spec.rings[0].percent", "1 to 100", "correct"),
        (RINGS, "[{nodes: 0}, {percent: 100}]", "spec.rings[0].nodes", "1 to 1000000", "correct"),
        (RINGS, "[{nodes: 1, percent: 1}, {percent: 100}]", "spec.rings[0]", "one of nodes, percent", "exactly one"),
        (RINGS, "[{of: {nodes: [n1]}}, {percent: 100}]", "spec.rings[0]", "one of nodes, percent", "exactly one"),
        ("nodes: [n1]}}, {percent: 10}", "labels: {a: b}}}, {percent: 10}", "spec.rings[1].of", "nobody", "leave it"),
        ("nodes: [n1]}}, {percent: 10}", "nodes: [n2]}}, {percent: 10}", "spec.rings[1].of.nodes", "no Node n2", "id"),
        ("{labels: {rack: r1}}", "{labels: {rack: r2}}", "spec.applies_to", "selects nobody", "leave it out for all"),
        ("bake_s: 60", "bake_s: 31536000", "spec.bake_s", "0 to 86400", "correct"),
        ("bake_s: 60", "success_percent: 0", "spec.success_percent", "1 to 100", "correct"),
        ("bake_s: 60", "prepare: some", "spec.prepare", "all, ring, none", "choose"),
        ("on_failure: revert", "on_failure: rever", "spec.on_failure", "halt, revert", "did you mean revert?"),
    ],
)  # fmt: skip
def test_a_rollout_that_cannot_be_meant(old: str, new: str, field: str, message: str, remedy: str) -> None:
    found = problems(replaced(old, new))
    problem = next(each for each in found if each.field == field)
    assert problem.line > 90 and message in problem.message and remedy in problem.remedy


def test_all_problems_are_told_at_once() -> None:
    text = replaced("port: 8080", "port: 0").replace("priority: 7", "priority: 8")
    assert [problem.field for problem in problems(text)] == ["spec.endpoints[0].port", "spec.classes.voice.priority"]


def test_a_node_is_told_of_a_thousand_services_at_most() -> None:
    """Each is a scope of it, and a report has room for so many; those that are not for it do not count."""
    nodes = [Node(role, roles=(role,), organizations=("a",)) for role in ("ingress", "egress_service")]
    here, nowhere = Selector(nodes=("egress_service",)), Selector(labels={"rack": "none"})
    services = [Service(f"s{number}", "a", here if number < 1000 else nowhere) for number in range(1200)]
    declared = {each.key: each for each in (Organization("a"), *nodes, *services)}
    assert [fault for _, fault in faults_of(Model("prod", declared))] == []
    declared |= {each.key: each for each in [replace(services[1100], runs_on=here)]}
    ((resource, fault),) = faults_of(Model("prod", declared))
    assert (resource, fault.path) == (nodes[1], ("spec", "organizations"))
    assert "1001 services" in fault.message and "runs_on" in fault.remedy


PRIVATE = ec.generate_private_key(ec.SECP256R1())
PEM = PRIVATE.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
DER = PRIVATE.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
PUBLIC = PRIVATE.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def quoted(text: str) -> str:
    return '"' + text.replace("\n", "\\n") + '"'


@pytest.mark.parametrize(
    "line",
    [
        "vncPassword: hunter2",
        "client-secret: [a]",
        "api_key: 12345",
        f"note: {quoted(PEM)}",
        f"note: {quoted(PEM[:60])}",
        "note: postgres://u:hunter2@db/x",
        "note: AKIAIOSFODNN7EXAMPLE",
        "jwk: {kty: EC, d: abc}",
        'wg: "PrivateKey = abc="',
        "ref: {secret_ref: vault:x, extra: 1}",
        f"blob: {base64.b64encode(DER).decode()}",
        f"blob: {base64.b64encode(PEM.encode()).decode()}",
    ],
    ids=lambda line: line.split(":")[0],
)
def test_raw_secrets_are_refused_where_they_stand(line: str) -> None:
    """rules S78, S19; threats D-53, D-55: the finding shows where and what kind, never the value."""
    found = problems(replaced("threads: 4", line), together=False)
    assert any(problem.line in (24, 25, 26) and "spec.settings" in problem.field for problem in found)
    assert any("secret_ref" in problem.remedy for problem in found)
    shown = " ".join(map(str, found))
    assert "hunter2" not in shown and base64.b64encode(DER).decode()[:20] not in shown


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ("password: {secret_ref: nocolon}", "password"),
        ("password: {secret_ref: 'env:X', other: 1}", "password"),
        ("ports: {8080: {password: x}}", "ports.8080.password"),
        ("'0': [{'0': {password: x}}]", "0[0].0.password"),
        ("a/b~c: [{}, {password: x}]", "a/b~c[1].password"),
        ("'\u0663': {password: x}", "\u0663.password"),
        ("AKIAIOSFODNN7EXAMPLE: {password: [x]}", "(secret).password"),
        ("AKIAIOSFODNN7EXAMPLE: {a: [1]}", "(a member name)"),
    ],
)
def test_a_secret_is_found_by_its_place_whatever_its_members_are_called(line: str, field: str) -> None:
    """rules S78; threats D-55: a name of digits is no index, a wrong reference no other member."""
    shown = problems(replaced("threads: 4", line), together=False)
    assert [(each.line, each.field) for each in shown if "raw secret" in each.message] == [
        (24 - ("(" in field), f"spec.settings.{field}")  # of a name that is a secret, the mapping around it
    ]
    assert "AKIA" not in " ".join(map(str, shown))


@pytest.mark.parametrize("name", ["query_grants", "audit_authority", "policy_mutations", "user_directory"])
def test_authority_that_no_node_is_given(name: str) -> None:
    """rules S23"""
    line, field, message, _ = only(replaced("threads: 4", f"deep: [{{{name}: [a]}}]"))
    assert (line, field) == (24, f"spec.settings.deep[0].{name}")
    assert name in message


def test_what_is_no_secret_passes() -> None:
    """rules S52"""
    lines = f"note: {base64.b64encode(PUBLIC).decode()}\n    token_ttl_s: 60\n    hash: sha256:{'0' * 64}"
    resources.read({"a.yaml": replaced("threads: 4", lines)})


def test_a_billion_laughs_is_refused_at_once() -> None:
    (problem,) = problems("a: &a [x]\nb: &b [*a, *a]\n", together=False)
    assert problem.line == 1
    (problem,) = problems("[" * 10_000, together=False)
    assert "nested" in problem.message


@pytest.mark.parametrize(
    "text", ["[]", "a", "kind: Node", "kind: Node\nid: n\nspec: []", "kind: [x]\nid: n", "id: n\nspec: {}"]
)
def test_what_is_no_resource(text: str) -> None:
    assert problems(text, together=False)


def test_a_resource_is_declared_once() -> None:
    with pytest.raises(InvalidResources) as caught:
        resources.read({"a.yaml": "kind: Organization\nid: a\n", "b.yaml": "---\nkind: Organization\nid: a\n"})
    (problem,) = caught.value.problems
    assert problem.file == "b.yaml" and "a.yaml:1" in problem.message
