"""`holdfastctl` against a coordinator that runs: exit statuses, JSON for scripts, remedies for people."""

import json
import os
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from holdfast.ctl.endpoint import Socket
from holdfast.ctl.operator import COMMANDS, main
from holdfast.ctl.socket import DIFFERENT, NOT_FOUND, NOT_WRITTEN, REFUSED, UNANSWERED, UNCONFIRMED
from tests.holdfast.operator_lab import ROOT, Lab, running

NODES = """
kind: Node
id: n1
spec: {roles: [core_mesh]}
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with running(tmp_path_factory.mktemp("lab")) as started:
        yield started


def test_no_command_waits_for_what_it_may_not_need() -> None:
    """The database's library is for the body of `init` alone."""
    modules = sorted({module for module, *_ in COMMANDS.values()})
    code = f"import importlib, sys; [importlib.import_module(each) for each in {modules}]; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    unneeded = {"sqlalchemy", "alembic", "coordinator.database.database", "trio", "h11"}
    assert unneeded.isdisjoint(ran.stdout.split())


def test_over_the_socket_no_authority_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no TLS there, and the CAs of the world take a while to read."""
    read = []
    for name in ("load_verify_locations", "load_default_certs"):
        monkeypatch.setattr(ssl.SSLContext, name, lambda *_, **__: read.append(_))
    with Socket(tmp_path / "admin.sock").client():
        assert read == []


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_explains_itself(name: str) -> None:
    ran = CliRunner().invoke(main, [name, "--help"])
    assert ran.exit_code == 0
    assert ran.output.startswith("Usage:")
    assert name in CliRunner().invoke(main, ["--help"]).output


def test_what_is_asked_answers_in_words_and_in_json(lab: Lab) -> None:
    for arguments, members in (
        (("status",), {"cluster_id", "authority_epoch", "trust_bundle"}),
        (("fleet",), {"members", "stragglers"}),
        (("audit",), {"entries"}),
        (("nodes", "list"), {"nodes"}),
        (("allow", "list"), {"entries"}),
        (("tokens", "list"), {"tokens"}),
        (("revoke", "list"), {"version", "key_ids"}),
        (("rotate", "status"), {"keys", "held", "thresholds"}),
        (("trust", "show"), {"version", "keys"}),
        (("epoch", "show"), {"authority_epoch"}),
        (("diff",), {"nodes", "held_back"}),
    ):
        assert members <= lab.good(*arguments, "--json").json.keys(), arguments
        shown = lab.good(*arguments).out
        assert shown, arguments
        with pytest.raises(ValueError):
            json.loads("{" + shown)


def test_a_coordinator_that_does_not_answer(lab: Lab) -> None:
    ran = lab.ctl("status", "--socket", lab.folder / "nowhere" / "admin.sock")
    assert ran.status == UNANSWERED
    assert "start holdfast-coordinator" in ran.err
    assert ran.out == ""


def test_wrong_usage(lab: Lab) -> None:
    for arguments in (("nonsense",), ("recover", "n1"), ("apply",), ("tokens", "create", "--lifetime", "soon")):
        assert lab.ctl(*arguments).status == 2, arguments


def test_what_is_refused_names_the_remedy_and_changes_nothing(lab: Lab) -> None:
    """rules X20: the operator is told why, and what to do."""
    before = lab.good("audit", "--json", "--action", "revoke.node").json
    for arguments, status, word in (
        (("nodes", "show", "n9"), NOT_FOUND, "list what there is"),
        (("nodes", "remove", "n9", "--reason", "x", "--yes"), NOT_FOUND, "list what there is"),
        (("allow", "add", "N9"), NOT_FOUND, "not_found"),
        (("tokens", "revoke", "0" * 32, "--yes"), NOT_FOUND, "tokens"),
        (("revoke", "role", "n1", "No Role", "--reason", "x", "--yes"), REFUSED, "out of form"),
        (("revoke", "role", "n1", "banana", "--unknown", "--reason", "x", "--yes"), REFUSED, "ingress"),
        (("tokens", "create", "--lifetime", "1min"), REFUSED, "600"),
        (("recover", "n1", "route_policy", "--to", "1"), NOT_FOUND, "holdfastctl nodes"),
        (("publish", "--to", "/proc/nowhere"), REFUSED, "directory"),
    ):
        ran = lab.ctl(*arguments)
        assert (ran.status, ran.out) == (status, ""), (arguments, ran)
        assert word in ran.err, (arguments, ran)
        assert ran.err.startswith("holdfastctl: ")
    assert lab.good("audit", "--json", "--action", "revoke.node").json == before


@pytest.mark.parametrize(
    ("into", "status", "said"), [("/dev/full", NOT_WRITTEN, "could not be written"), (None, 1, "")]
)
def test_an_answer_that_nobody_takes_is_no_refusal(lab: Lab, into: str | None, status: int, said: str) -> None:
    """A full disk, and a reader that has gone (`| head`): what was asked for is done, and nothing else is said"""
    if into:
        output = os.open(into, os.O_WRONLY)
    else:
        reader, output = os.pipe()
        os.close(reader)
    node = f"unheard-{status}"
    command = [sys.executable, "-c", "from holdfast.ctl.operator import main; main(prog_name='holdfastctl')"]
    environment = {**os.environ, "HOLDFAST_ADMIN_SOCKET": str(lab.socket)}
    ran = subprocess.run(
        [*command, "allow", "add", node], stdout=output, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=environment,
        check=False,
    )  # fmt: skip
    os.close(output)
    assert ran.returncode == status
    assert said in ran.stderr and "nothing was changed" not in ran.stderr and "Traceback" not in ran.stderr
    lab.good("allow", "remove", node, "--yes")


def test_what_destroys_asks(lab: Lab) -> None:
    lab.good("allow", "add", "n5")
    for answer in ("n\n", ""):
        ran = lab.ctl("allow", "remove", "n5", stdin=answer)
        assert ran.status == UNCONFIRMED
        assert [each["node_id"] for each in lab.good("allow", "list", "--json").json["entries"]] == ["n5"]
    assert "--yes" in lab.ctl("allow", "remove", "n5").err
    lab.good("allow", "remove", "n5", stdin="y\n")
    assert lab.good("allow", "list", "--json").json["entries"] == []


def test_declared_state_is_shown_asked_for_and_applied(lab: Lab) -> None:
    """protocol.md 2: --dry-run is the same code, stopped before the commit."""
    place = lab.folder / "state.d"
    (place / "more").mkdir(parents=True)
    assert lab.ctl("apply", "-f", place).status == 2
    (place / "more" / "nodes.yaml").write_text(NODES)
    assert "+ Node n1" in lab.good("apply", "-f", place, "--dry-run").out
    assert lab.good("diff", "-f", place).out.startswith("+ Node n1")
    assert lab.ctl("diff", "-f", place, "--exit-code").status == DIFFERENT
    assert lab.ctl("apply", "-f", place, stdin="n\n").status == UNCONFIRMED
    assert lab.ctl("diff", "-f", place, "--exit-code").status == DIFFERENT
    assert "applied: 1 changes" in lab.good("apply", "-f", place, stdin="y\n").out
    assert "nothing to do" in lab.good("apply", "-f", place).out
    assert lab.ctl("diff", "-f", place, "--exit-code").status == 0
    (place / "more" / "nodes.yaml").write_text("kind: Organization\nid: acme\n")
    assert "- Node n1" in lab.good("apply", "-f", place, "--prune", "--dry-run").out
    assert "- Node n1" in lab.good("apply", "-f", place, "--prune", "--yes").out


def test_every_problem_of_a_file_is_named_with_its_line(lab: Lab) -> None:
    path = lab.folder / "wrong.yaml"
    path.write_text("kind: Node\nid: n1\nspec: {roles: [core_mash], colour: red}\n")
    ran = lab.ctl("apply", "-f", path, "--yes")
    assert ran.status == REFUSED
    assert f"{path}:3" in ran.err
    assert "did you mean core_mesh?" in ran.err
    assert "colour" in ran.err


def test_what_holds_back_what_was_applied_is_said(lab: Lab) -> None:
    """Declared is not published: the change is there, and so is why no node gets it"""
    path = lab.folder / "more.yaml"
    path.write_text(NODES.replace("n1", "n2"))
    (key,) = lab.keys.glob("config-*.pem")
    key.rename(lab.folder / key.name)
    try:
        lab.reload()
        planned = lab.good("apply", "-f", path, "--dry-run")
        assert "it would be held back: no_signer: this replica is without its keys: " in planned.err
        ran = lab.ctl("apply", "-f", path, "--yes")
        assert (ran.status, "applied: 1 changes, and held back" in ran.out) == (DIFFERENT, True)
        assert "no_signer: " in ran.out and "see holdfastctl status" in ran.out
        ran = lab.ctl("status", "--wait", "0")
        assert (ran.status, ran.err.startswith("holdfastctl: not ready: ")) == (DIFFERENT, True)
    finally:
        (lab.folder / key.name).rename(key)
        lab.reload()
    assert lab.good("status", "--wait", "60", "--json").json["publishing"]["fault"] == ""
    path.write_text(NODES.replace("n1", "n3"))
    assert "get new configuration" in lab.good("apply", "-f", path, "--yes").out


def test_tokens_are_shown_once(lab: Lab) -> None:
    """rules K25, K26"""
    shown = lab.good("tokens", "create", "--node", "n1", "--lifetime", "2h")
    assert shown.out.count(".") == 2
    assert shown.out.strip() not in shown.err
    (token,) = lab.good("tokens", "list", "--json").json["tokens"]
    assert token["jti"] in shown.err
    assert shown.out.strip() not in lab.good("tokens", "list").out
    kept = lab.folder / "join.token"
    assert lab.good("tokens", "create", "--out", kept).out.strip() == str(kept)
    assert kept.stat().st_mode & 0o777 == 0o600
    assert kept.read_text().count(".") == 2
    before = kept.read_text()
    assert lab.ctl("tokens", "create", "--out", kept).status == REFUSED
    assert kept.read_text() == before
    lab.good("tokens", "revoke", token["jti"], "--yes")
    states = lab.good("tokens", "list").out
    assert "revoked" in states


def test_the_allowlist_and_what_is_revoked(lab: Lab) -> None:
    """rules J17, K54, S61"""
    lab.good("allow", "add", "w1", "--kind", "witness")
    assert "witness" in lab.good("allow", "list").out
    for arguments in (("role", "w1", "ingress"), ("service", "mail"), ("endpoint", "https://old.example:443")):
        refused = lab.ctl("revoke", *arguments, "--reason", "test", "--yes")
        assert (refused.status, "--unknown" in refused.err) == (NOT_FOUND, True), refused
        lab.good("revoke", *arguments, "--unknown", "--reason", "test", "--yes")
    revoked = lab.good("revoke", "list", "--json").json
    assert (revoked["role_assignments"], revoked["service_ids"]) == (["w1/ingress"], ["mail"])
    assert revoked["endpoints"] == ["https://old.example:443"]
    lab.good("revoke", "restore", "endpoints", "https://old.example:443", "--yes")
    assert lab.good("revoke", "list", "--json").json["endpoints"] == []


def test_the_certificate_is_shown_without_a_coordinator(lab: Lab) -> None:
    """rules K11, P15"""
    shown = lab.good("show-certificate", "--configuration", lab.configuration, "--json").json
    assert shown["fingerprint"].startswith("sha256:")
    assert shown["names"] == ["localhost"]
    by_path = lab.good("show-certificate", lab.folder / "state" / "tls" / "server.pem")
    assert shown["fingerprint"] in by_path.out
    assert "BEGIN CERTIFICATE" in by_path.out
    authority = lab.folder / "state" / "tls" / "ca.pem"
    assert shown["authority"] == str(authority)
    assert f"CA for nodes  {authority}" in by_path.out
    alone = lab.folder / "server.pem"
    alone.write_text(shown["certificate"])
    for other in (None, authority.with_name("server.pem"), alone):  # a CA, a certificate and no CA, none
        if other is not None:
            (lab.folder / "ca.pem").write_bytes(other.read_bytes())
        assert lab.good("show-certificate", alone, "--json").json["authority"] is None
    assert "CA for nodes  not here" in lab.good("show-certificate", alone).out
    assert lab.ctl("show-certificate", lab.configuration).status == 2


def test_what_is_published_goes_to_a_directory(lab: Lab) -> None:
    tree = lab.folder / "tree"
    assert "1 new" in lab.good("publish", "--to", tree).out
    assert (tree / "trust" / "1.hfs").exists()
    assert "0 new, 1 unchanged" in lab.good("publish", "--to", tree).out
