"""`holdfastctl` from afar: a key is made, let in, used over TLS, shut out (protocol 2)."""

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.ctl.socket import REFUSED, UNANSWERED, UNCONFIRMED
from tests.holdfast.operator_lab import Lab, Ran, running
from wire.certificate import Certificate, make_authority, pem_to_der


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with running(tmp_path_factory.mktemp("lab")) as started:
        yield started


def afar(lab: Lab, name: str, *arguments: object, **other: object) -> Ran:
    """The command as `name` runs it on another machine: nothing there but the three files and the URL."""
    options = {
        "url": f"https://localhost:{lab.ports['operators']}",
        "ca": lab.folder / "state/tls/ca.pem",
        "certificate": f"{name}.crt",
        "key": f"{name}.key",
        **other,
    }
    given = [part for option, value in options.items() if value is not None for part in (f"--{option}", value)]
    return lab.ctl(*given, *arguments)


def let_in(lab: Lab, name: str) -> None:
    lab.good("operators", "key", name, "--out", lab.folder)
    lab.good("operators", "add", name, "--certificate", f"{name}.crt", "--yes")


def test_the_whole_way(lab: Lab) -> None:
    made = lab.good("operators", "key", "alice", "--out", lab.folder, "--days", "30", "--json").json
    assert stat.S_IMODE((lab.folder / "alice.key").stat().st_mode) == 0o600
    assert made["fingerprint"] == Certificate.read(pem_to_der((lab.folder / "alice.crt").read_bytes())).fingerprint
    refused = afar(lab, "alice", "status")
    assert refused.status == UNANSWERED and "does not know this certificate" in refused.err
    added = lab.good("operators", "add", "alice", "--certificate", "alice.crt", "--yes")
    assert made["fingerprint"] in added.out and made["not_after"] in added.out
    assert afar(lab, "alice", "status", "--json").json["cluster_id"] == "prod"
    assert "alice" in lab.good("operators", "list").out

    (lab.folder / "declared.yaml").write_text("{kind: Organization, id: acme}\n---\n{kind: Site, id: east}")
    assert afar(lab, "alice", "apply", "-f", "declared.yaml", "--yes").status == 0
    assert afar(lab, "alice", "allow", "add", "n9", "--site", "east", "--json").json["site_id"] == "east"
    token = afar(lab, "alice", "tokens", "create", "--node", "n9", "--json").json
    assert (token["node_id"], token["site_id"]) == ("n9", "east")
    entries = lab.good("audit", "--json").json["entries"]
    assert {each["actor"] for each in entries if each["action"] in ("apply", "allow")} == {"operator:alice"}

    assert lab.ctl("operators", "remove", "alice").status == UNCONFIRMED
    lab.good("operators", "remove", "alice", "--yes")
    assert afar(lab, "alice", "status").status == UNANSWERED
    assert afar(lab, "alice", "status", url=None, ca=None, certificate=None, key=None).status == 0


def test_a_role_is_given_shown_and_changed(lab: Lab) -> None:
    lab.good("operators", "key", "vera", "--out", lab.folder)
    asked = ("operators", "add", "vera", "--certificate", "vera.crt", "--role", "viewer")
    assert "as a viewer" in lab.ctl(*asked).err
    assert ", viewer, " in lab.good(*asked, "--yes").out
    (lab.folder / "other.yaml").write_text("{kind: Organization, id: other}")
    assert afar(lab, "vera", "resources", "list").status == 0
    refused = afar(lab, "vera", "apply", "-f", "other.yaml", "--yes")
    assert refused.status == REFUSED
    assert "vera is a viewer, and this needs an author" in refused.err and "set-role vera author" in refused.err
    assert lab.ctl("operators", "set-role", "vera", "author").status == UNCONFIRMED
    assert "vera is an author now" in lab.good("operators", "set-role", "vera", "author", "--yes").out
    listed = {each["name"]: each["role"] for each in lab.good("operators", "list", "--json").json["operators"]}
    assert listed["vera"] == "author" and "author" in lab.good("operators", "list").out
    assert afar(lab, "vera", "apply", "-f", "other.yaml", "--yes").status == 0
    assert lab.ctl("operators", "set-role", "vera", "root", "--yes").status == 2


def test_what_stays_on_the_machine(lab: Lab) -> None:
    let_in(lab, "bob")
    for arguments in (
        ("operators", "remove", "bob", "--yes"),
        ("operators", "add", "eve", "--certificate", "bob.crt", "--yes"),
        ("operators", "set-role", "bob", "viewer", "--yes"),
        ("publish", "--to", lab.folder / "tree"),
        ("rotate", "add", "--new-key-to", lab.folder),
    ):
        ran = afar(lab, "bob", *arguments)
        assert ran.status == REFUSED and "local_only" in ran.err, (arguments, ran)
    assert afar(lab, "bob", "operators", "list").status == 0


def test_a_coordinator_that_is_another_one_is_told_nothing(lab: Lab, tmp_path: Path) -> None:
    """rules K15; P10: said in words, with the remedy."""
    let_in(lab, "carol")
    other = tmp_path / "other.pem"
    other.write_bytes(make_authority("somebody else", 1_700_000_000).certificate_pem)
    ran = afar(lab, "carol", "status", ca=other)
    assert ran.status == UNANSWERED and "does not lead to" in ran.err
    by_address = afar(lab, "carol", "status", url=f"https://127.0.0.1:{lab.ports['operators']}")
    assert by_address.status == UNANSWERED and "does not lead to" in by_address.err
    assert afar(lab, "carol", "status").status == 0


@pytest.mark.parametrize(
    ("other", "status", "said"),
    [
        ({"key": None}, 2, "--key"),
        ({"url": "http://localhost:1"}, 2, "https://HOST:PORT"),
        ({"url": "https://localhost:1"}, UNANSWERED, "[listen] admin"),
        ({"key": "nobody.key"}, UNANSWERED, "nobody.key"),
        ({"key": "coordinator.toml"}, UNANSWERED, "in PEM"),
        ({"ca": "coordinator.toml"}, UNANSWERED, "in PEM"),
    ],
)
def test_wrong_usage_is_named(lab: Lab, other: dict, status: int, said: str) -> None:
    if not (lab.folder / "dave.key").exists():
        let_in(lab, "dave")
    ran = afar(lab, "dave", "status", **other)
    assert ran.status == status and said in ran.err, ran


def test_two_places_are_one_too_many(lab: Lab) -> None:
    ran = afar(lab, "alice", "status", "--socket", lab.socket)
    assert ran.status == 2 and "--socket" in ran.err


def test_nothing_is_written_over(lab: Lab) -> None:
    lab.good("operators", "key", "erin", "--out", lab.folder)
    before = (lab.folder / "erin.key").read_bytes()
    again = lab.ctl("operators", "key", "erin", "--out", lab.folder)
    assert again.status == REFUSED and (lab.folder / "erin.key").read_bytes() == before
    wrong = lab.ctl("operators", "add", "erin", "--certificate", "erin.key", "--yes")
    assert wrong.status == 2 and "PEM" in wrong.err
