"""Who comes in, what is gone out by, and how thin nodes tunnel: from a declaration to a program on the node, and what
is revoked by its name there while nobody answers. By the shipped programs.
"""

import json

DECLARED = """\
kind: Cluster
id: prod
spec: {coordinators: ["https://localhost:7443"]}
---
kind: Organization
id: acme
---
kind: Node
id: gateway
spec: {roles: [ingress, egress_service, thin], organizations: [acme]}
---
kind: Service
id: web
spec:
  organization: acme
  runs_on: {nodes: [gateway]}
  workload: web
  resources: [plant, printer]
  endpoints: [{name: http, protocol: http, host: 127.0.0.1, port: 8081, exposed: true}]
---
kind: EntryPolicy
id: staff
spec: {organization: acme, networks: [192.0.2.0/24]}
---
kind: EgressResource
id: office
spec: {organization: acme, type: connector}
---
kind: EgressResource
id: plant
spec:
  organization: acme
  type: vpn_connection
  connector: office
  settings: {mtu: 1420, login: {secret_ref: "vault:plant"}}
  schema: {required: [mtu], properties: {mtu: {type: integer}}}
---
kind: EgressResource
id: printer
spec: {organization: acme, type: resource, settings: {host: printer.acme.example}}
---
kind: SessionPolicy
id: phones
spec:
  organization: acme
  session: {ttl_s: 3600}
  tunnel: {mode: split, networks: [192.0.2.0/24]}
---
kind: DegradedModePolicy
id: base
spec: {allow: [continue_services, preserve_routes], allow_unconfirmed_start: true}
"""


def declare(lab, text=DECLARED):
    (lab.folder / "fabric.yaml").write_text(text)
    return lab.ctl("apply", "-f", lab.folder / "fabric.yaml", "--yes")


def in_file(gateway):
    """What a program reads that reads files."""
    path = gateway.folder / "run" / "active" / "services" / "web" / "resources.json"
    return json.loads(path.read_text()) if path.exists() else {}


def at_socket(gateway):
    return gateway.client.service("web").resources


def policy(gateway, name):
    return gateway.client.get("route_policy", name).value


def may_use(gateway, resource):
    return gateway.ask("may", "use_resource", "--resource", resource, "--json").json["reason"]


def may_resolve(gateway):
    return gateway.ask("may", "resolve_secret", "--resource", "vault:plant", "--json").json["reason"]


def test_from_a_declaration_to_what_is_revoked_by_its_name(lab, gateway):
    """seed 001 section 5; rules S60, S61: what a head takes away stays away, over a restart without a coordinator"""
    assert declare(lab).status == 0
    gateway.enrol()
    gateway.until(lambda: in_file(gateway).keys() == {"office", "plant", "printer"})
    assert at_socket(gateway) == in_file(gateway)
    assert at_socket(gateway)["plant"]["settings"] == {"mtu": 1420, "login": {"secret_ref": "vault:plant"}}
    assert policy(gateway, "entry_policies")["staff"]["networks"] == ["192.0.2.0/24"]
    assert policy(gateway, "session_policies")["phones"]["session"]["ttl_s"] == 3600
    assert [may_use(gateway, name) for name in ("plant", "printer", "other")] == ["ok", "ok", "not_in_policy"]
    assert may_resolve(gateway) == "ok"

    refused = declare(lab, DECLARED.replace("mtu: 1420", "mtu: wide"))
    assert refused.status != 0 and "spec.settings.mtu: is not as `type` of the schema asks" in refused.err
    assert declare(lab, DECLARED.replace("mtu: 1420", "mtu: 1380").replace("3600", "1800")).status == 0
    gateway.until(lambda: in_file(gateway)["plant"]["settings"]["mtu"] == 1380, hinted=True)
    gateway.until(lambda: policy(gateway, "session_policies")["phones"]["session"]["ttl_s"] == 1800)

    unknown = lab.ctl("revoke", "resource", "palnt", "--reason", "a slip", "--yes")
    assert unknown.status != 0 and "plant" in unknown.err
    lab.good("revoke", "resource", "office", "--reason", "stolen", "--yes")
    gateway.until(lambda: may_use(gateway, "plant") == "revoked", hinted=True)
    lab.stop()
    is_gone(gateway)
    gateway.kill()
    gateway.start()
    is_gone(gateway)

    lab.start()
    lab.good("revoke", "restore", "service_ids", "office", "--yes")
    gateway.until(lambda: may_use(gateway, "plant") == "ok", hinted=True)
    gateway.until(lambda: in_file(gateway).keys() == {"office", "plant", "printer"})
    assert at_socket(gateway) == in_file(gateway)


def is_gone(gateway):
    """The connector, what it leads to, and the secret of that; the rest goes on."""
    gateway.until(lambda: in_file(gateway).keys() == {"printer"})
    assert at_socket(gateway) == in_file(gateway)
    assert [may_use(gateway, name) for name in ("office", "plant")] == ["revoked", "revoked"]
    assert may_resolve(gateway) == "revoked"
    assert may_use(gateway, "printer") == "ok"
    assert gateway.ask("may", "continue_services", "--resource", "web").status == 0
