"""Ceremonies from the command line: with root keys at hand, and without (rules S36, S40, K54)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.ctl.socket import REFUSED, UNCONFIRMED
from tests.holdfast.operator_lab import Lab, Ran, running


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with running(tmp_path_factory.mktemp("lab")) as started:
        yield started


def keys(lab: Lab) -> dict[str, dict]:
    return {each["key_id"]: each for each in lab.good("trust", "show", "--json").json["keys"]}


def version(lab: Lab) -> int:
    return lab.good("trust", "show", "--json").json["version"]


def signed(lab: Lab, *arguments: object) -> Ran:
    return lab.good(*arguments, "--root-key", lab.roots, "--yes")


def test_a_config_key_is_rolled_over(lab: Lab) -> None:
    """rules S36, S40: add, reload, both sign, retire; never before the coordinator can sign with the new one."""
    old = lab.config_key()
    signed(lab, "rotate", "add")
    (new,) = [key_id for key_id, each in keys(lab).items() if each["purpose"] == "config" and key_id != old]
    early = lab.ctl("rotate", "retire", old, "--root-key", lab.roots, "--yes")
    assert early.status == REFUSED
    assert "reload the coordinator" in early.err
    lab.reload()
    held = {each["key_id"]: each["faults"] for each in lab.good("rotate", "status", "--json").json["held"]}
    assert {fault for faults in held.values() for fault in faults.values()} == {None}
    assert held.keys() == {old, new}
    before_its_date = lab.ctl("rotate", "retire", old, "--root-key", lab.roots, "--yes")
    assert (before_its_date.status, "may retire from 20" in before_its_date.err) == (REFUSED, True)
    assert "--early" in before_its_date.err and keys(lab)[old]["status"] == "active"
    signed(lab, "rotate", "retire", old[7:19], "--early")
    assert keys(lab)[old]["status"] == "retiring"
    held = {each["key_id"]: each["faults"] for each in lab.good("rotate", "status", "--json").json["held"]}
    assert set(held[old].values()) == {"retiring"}
    assert set(held[new].values()) == {None}
    too_early = lab.ctl("rotate", "remove", old, "--root-key", lab.roots, "--yes")
    assert (too_early.status, "remove it after that" in too_early.err) == (REFUSED, True)


def test_a_new_key_goes_where_the_coordinator_looks(lab: Lab) -> None:
    """Whatever its coordinator.toml says; a root key never goes there."""
    assert lab.good("rotate", "status", "--json").json["directory"] == str(lab.keys)
    before = version(lab)
    ran = lab.ctl("rotate", "add", "--purpose", "root", "--root-key", lab.roots, "--yes")
    assert (ran.status, "--new-key-to" in ran.err) == (REFUSED, True)
    assert (version(lab), list(lab.keys.glob("root-*"))) == (before, [])


def test_a_root_key_made_on_another_machine(lab: Lab) -> None:
    """seed 001, 8: its private half never comes here."""
    away = lab.folder / "away"
    made = lab.good("trust", "new-key", "--purpose", "root", "--to", away, "--json").json
    (public,) = away.glob("*.pub.pem")
    assert (made["public"], Path(made["private"]).parent) == (str(public), away)
    signed(lab, "rotate", "add", "--purpose", "root", "--public-key", public)
    assert sum(each["purpose"] == "root" for each in keys(lab).values()) == 4
    wrong = lab.ctl("rotate", "add", "--public-key", lab.configuration, "--root-key", lab.roots, "--yes")
    assert (wrong.status, "new-key" in wrong.err) == (REFUSED, True)


def test_thresholds_and_epochs(lab: Lab) -> None:
    """format.md 8: root keys alone announce an epoch."""
    signed(lab, "rotate", "threshold", "root", "3")
    assert lab.good("trust", "show", "--json").json["thresholds"] == {"config": 1, "root": 3}
    signed(lab, "rotate", "threshold", "root", "2")
    before = lab.good("epoch", "show").out.strip()
    signed(lab, "epoch", "raise")
    assert lab.good("epoch", "show").out.strip() == str(int(before) + 1)
    back = lab.ctl("epoch", "raise", "--to", "2", "--root-key", lab.roots, "--yes")
    assert (back.status, "only goes up" in back.err) == (REFUSED, True)


def test_nothing_is_signed_without_a_yes(lab: Lab) -> None:
    """And a new key that nothing has asked for does not stay."""
    before, files = version(lab), sorted(lab.keys.iterdir())
    for answer in ("n\n", ""):
        ran = lab.ctl("rotate", "add", "--new-key-to", lab.keys, "--root-key", lab.roots, stdin=answer)
        assert ran.status == UNCONFIRMED
        assert "adds config key" in ran.out
    assert (version(lab), sorted(lab.keys.iterdir())) == (before, files)


def test_a_request_that_is_overtaken_is_refused(lab: Lab) -> None:
    """threats D-14: bound to the bundle that it extends."""
    file = lab.folder / "late.request.json"
    lab.good("epoch", "raise", "--request", file)
    asked = lab.good("trust", "show-request", file, "--json").json
    assert asked["about"] == f"trust bundle {version(lab) + 1} of cluster prod"
    assert {*asked["signed"].values()} == {False}
    ran = lab.good("trust", "sign", file, "--root-key", lab.roots, "--yes", "--json")
    assert (ran.json["request"], ran.json["missing"]) == (str(file), "it has all signatures")
    assert ran.json["changes"][0] in ran.err
    signed(lab, "trust", "export-request")
    before = version(lab)
    late = lab.ctl("trust", "import", file)
    assert late.status == REFUSED
    assert "sign it anew" in late.err
    assert version(lab) == before
    signed(lab, "trust", "export-request")
    assert version(lab) == before + 1


def test_a_request_that_was_tampered_with_is_not_signed(lab: Lab) -> None:
    """threats D-14: nobody signs what he was not shown."""
    file = lab.folder / "tampered.request.json"
    lab.good("rotate", "threshold", "root", "3", "--request", file)
    text = file.read_text()
    file.write_text(text.replace('"root": 3', '"root": 1'))
    ran = lab.ctl("trust", "sign", file, "--root-key", lab.roots, "--yes")
    assert (ran.status, "no signing request" in ran.err) == (REFUSED, True)
    assert lab.ctl("trust", "show-request", file).status == REFUSED
    file.write_text(text)
    assert "asks for 3 root signatures" in lab.good("trust", "show-request", file).out
    lab.good("trust", "sign", file, "--root-key", lab.roots, "--yes")


def test_a_key_that_is_not_asked_signs_nothing(lab: Lab) -> None:
    stranger = lab.folder / "stranger"
    lab.good("trust", "new-key", "--to", stranger)
    ran = lab.ctl("trust", "export-request", "--root-key", stranger, "--yes", "--request", "x.json")
    assert (ran.status, "none of these keys" in ran.err) == (REFUSED, True)
    assert not Path(lab.folder / "x.json").exists()


def test_a_stolen_key_is_revoked(lab: Lab) -> None:
    """rules K54, S61: where another key can sign, by the next heads; the last one only with its successor."""
    last = [key_id for key_id, each in keys(lab).items() if each["purpose"] == "config" and each["status"] == "active"]
    assert len(last) == 1
    ran = lab.ctl("revoke", "key", last[0], "--reason", "stolen", "--yes")
    assert (ran.status, "--new-key-to" in ran.err) == (REFUSED, True)
    signed(lab, "revoke", "key", last[0], "--reason", "stolen", "--new-key-to")
    lab.reload()
    after = keys(lab)
    assert after[last[0]]["status"] == "revoked"
    held = {
        each["key_id"]: set(each["faults"].values()) for each in lab.good("rotate", "status", "--json").json["held"]
    }
    assert held[last[0]] == {"key_revoked"}
    assert {None} in held.values()
    signed(lab, "rotate", "add", "--new-key-to", lab.keys)
    lab.reload()
    newest = max(
        (each for each in keys(lab).values() if each["purpose"] == "config"), key=lambda each: each["not_after"]
    )
    lab.good("revoke", "key", newest["key_id"], "--reason", "stolen too", "--yes")
    assert lab.good("revoke", "list", "--json").json["key_ids"] == [newest["key_id"]]
    assert keys(lab)[newest["key_id"]]["status"] == "active", "the bundle follows"
    signed(lab, "trust", "export-request")
    assert keys(lab)[newest["key_id"]]["status"] == "revoked"


def test_encrypted_root_keys(tmp_path: Path) -> None:
    """Passphrases come from files or a prompt, never from arguments."""
    passphrase = tmp_path / "passphrase"
    passphrase.write_text("correct horse\n")
    passphrase.chmod(0o600)
    folder = tmp_path / "lab"
    folder.mkdir()
    with running(folder, "--passphrase-file", passphrase, "--roots", "1", "--threshold", "1") as lab:
        ran = lab.ctl("epoch", "raise", "--root-key", lab.roots, "--yes", stdin="wrong\n")
        assert (ran.status, "passphrase" in ran.err) == (REFUSED, True)
        lab.good("epoch", "raise", "--root-key", lab.roots, "--yes", stdin="correct horse\n")
        lab.good("epoch", "raise", "--root-key", lab.roots, "--yes", "--passphrase-file", passphrase)
        assert lab.good("epoch", "show").out.strip() == "3"
