"""A node's identity is reset with the shipped programs, and it joins the same coordinator again (rules L13, A9, X8)."""

from tests.journeys.gateway import declare


def joined(lab, gateway):
    """With a token that is bound to its name; until services read what is declared."""
    lab.good("tokens", "create", "--node", "gateway", "--out", gateway.folder / "join.token")
    gateway.until(lambda: gateway.status["state"] == "active" and gateway.port() == 8081)
    return lab.good("nodes", "show", "gateway", "--json").json["certificate_sha256"]


def reset(lab, gateway):
    """The agent is stopped for it."""
    root = ("--root", gateway.folder / "state")
    refused = lab.holdfast("store", "reset-identity", *root, "--yes", "gateway")
    assert (refused.status, "store_locked" in refused.err) == (2, True)
    gateway.kill()
    done = lab.holdfast("store", "reset-identity", *root, "--yes", "gateway")
    assert done.status == 0, done
    return done.out


def outside(gateway):
    """It asks nobody, and holds nothing that a service would read."""
    gateway.start()
    status = gateway.status
    assert (status["state"], status["cause"]) == ("unenrolled", "not_enrolled"), status
    gateway.until(lambda: not (gateway.folder / "run" / "active" / "service_assignment@web").exists())


def test_a_token_bound_to_its_name_brings_it_back_with_another_key(lab, gateway):
    """rules L13, X8, X23: still a member there, so the new certificate takes the place of the old one"""
    declare(lab, 8081)
    lab.good("allow", "add", "gateway")
    gateway.start()
    first = joined(lab, gateway)
    (gateway.folder / "join.token").unlink()
    assert first in reset(lab, gateway)
    outside(gateway)
    assert joined(lab, gateway) != first
    declare(lab, 8082)
    gateway.until(lambda: gateway.port() == 8082)
    gateway.until(lambda: "identity_reset" in lab.good("nodes", "events", "gateway", "--json").out)


def test_a_revoked_node_comes_back_once_it_is_readmitted(lab, gateway):
    """rules A9, L13, H-000-2: revoked also by the trust bundle, so that the next one has to say otherwise"""
    declare(lab, 8081)
    lab.good("allow", "add", "gateway")
    gateway.start()
    first = joined(lab, gateway)
    (gateway.folder / "join.token").unlink()
    lab.good("revoke", "node", "gateway", "--reason", "lent out", "--yes")
    bundle(lab, "revoking.json")
    gateway.until(lambda: gateway.status["state"] == "revoked")
    reset(lab, gateway)
    lab.good("nodes", "readmit", "gateway", "--yes")
    bundle(lab, "restoring.json")
    outside(gateway)
    assert joined(lab, gateway) != first


def bundle(lab, name):
    request = lab.folder / name
    lab.good("trust", "export-request", "--request", request)
    lab.good("trust", "sign", request, "--root-key", lab.roots, "--yes")
    lab.good("trust", "import", request)
