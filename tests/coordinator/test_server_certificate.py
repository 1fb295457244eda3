"""A coordinator's certificate is renewed by the CA that nodes trust already."""

import stat
import time
from pathlib import Path

import pytest
from cryptography import x509

from coordinator.base.refusal import Code, Refused
from coordinator.keys import server_certificate
from wire.certificate import Certificate, KeyPair, issue_server, make_authority, names_as_issuer, pem_to_der
from wire.tls_contexts import server_context

NOW = time.time()


@pytest.fixture
def tls(tmp_path: Path) -> Path:
    """What `init` leaves there."""
    ca = make_authority("prod coordinators", NOW)
    server = issue_server(ca, ["coord.example", "10.0.0.7"], NOW - 1000)
    files = {
        "ca.pem": ca.certificate_pem,
        "ca-key.pem": ca.key_pem,
        "server.pem": server.certificate_pem,
        "server-key.pem": server.key_pem,
    }
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    return tmp_path


def renew(tls: Path, *hosts: str) -> Certificate:
    ca = server_certificate.authority_in(tls)
    return server_certificate.renew(tls / "server.pem", tls / "server-key.pem", ca, hosts, NOW)


def contents(tls: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in tls.iterdir()}


@pytest.mark.parametrize(
    ("hosts", "names"),
    [
        ((), {"coord.example", "10.0.0.7"}),
        (("new.example", "new.example", "coord.example"), {"new.example", "coord.example"}),
    ],
)
def test_a_new_key_of_the_same_authority(tls: Path, hosts: tuple[str, ...], names: set[str]) -> None:
    """threats D-61: the key is nobody else's to read; nothing else lies there afterwards"""
    before = contents(tls)
    made = renew(tls, *hosts)
    after = contents(tls)
    assert set(after) == set(before)
    assert {name for name in before if before[name] != after[name]} == {"server.pem", "server-key.pem"}
    assert set(made.names) == names
    assert made.der == pem_to_der(after["server.pem"])
    assert stat.S_IMODE((tls / "server-key.pem").stat().st_mode) == 0o600
    server_context(KeyPair(after["server.pem"], after["server-key.pem"]))
    ca, server = (x509.load_pem_x509_certificate(after[name]) for name in ("ca.pem", "server.pem"))
    server.verify_directly_issued_by(ca)


@pytest.mark.parametrize("name", ["ca.pem", "ca-key.pem"])
def test_without_its_authority_nothing_is_changed(tls: Path, name: str) -> None:
    aside = (tls / name).read_bytes()
    (tls / name).unlink()
    before = contents(tls)
    with pytest.raises(Refused) as caught:
        renew(tls)
    assert (caught.value.code, name in caught.value.detail) == (Code.BAD_KEY, True)
    assert contents(tls) == before
    (tls / name).write_bytes(aside)
    renew(tls)


def test_a_key_that_is_kept_elsewhere_under_a_passphrase(tls: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """threats D-61: on the coordinator lies what nodes are given, and no key that could make another one"""
    away = tmp_path_factory.mktemp("stick")
    (away / "ca-key.pem").write_bytes(server_certificate.encrypt((tls / "ca-key.pem").read_bytes(), b"four words"))
    (tls / "ca-key.pem").unlink()
    before = contents(tls)
    for passphrase, said in ((None, "--passphrase-file"), (b"others", "the right one")):
        with pytest.raises(Refused) as caught:
            server_certificate.authority_in(away, passphrase, beside=tls)
        assert (caught.value.code, said in caught.value.remedy) == (Code.BAD_KEY, True)
    assert contents(tls) == before
    ca = server_certificate.authority_in(away, b"four words", beside=tls)
    made = server_certificate.renew(tls / "server.pem", tls / "server-key.pem", ca, (), NOW)
    after = contents(tls)
    server_context(KeyPair(after["server.pem"], after["server-key.pem"]))
    assert made.der == pem_to_der(after["server.pem"]) and set(after) == set(before)


@pytest.mark.parametrize("name", ["ca.pem", "ca-key.pem", "server.pem"])
def test_what_cannot_be_read_changes_nothing(tls: Path, name: str) -> None:
    (tls / name).write_bytes(b"no PEM")
    before = contents(tls)
    with pytest.raises(Refused) as caught:
        renew(tls)
    assert caught.value.code is Code.BAD_KEY
    assert caught.value.remedy
    assert contents(tls) == before


def test_after_an_interruption_it_is_run_again(tls: Path) -> None:
    """rules P7: a key whose certificate did not follow, and half of a file beside"""
    (tls / "server-key.pem").write_bytes(make_authority("x", NOW).key_pem)
    (tls / ".server.pem.new").write_bytes(b"half")
    renew(tls)
    files = contents(tls)
    server_context(KeyPair(files["server.pem"], files["server-key.pem"]))
    assert ".server.pem.new" not in files


def test_another_authority_takes_the_place_of_the_one_before(tls: Path) -> None:
    """The way back lies in `before`, and nothing of it is overwritten by what came after"""
    before, ca = contents(tls), make_authority("next", NOW)
    for _ in range(2):  # interrupted anywhere, it is run again
        made = server_certificate.exchange(tls / "server.pem", tls / "server-key.pem", ca, NOW)
        server_context(KeyPair((tls / "server.pem").read_bytes(), (tls / "server-key.pem").read_bytes()))
        assert set(made.names) == {"coord.example", "10.0.0.7"}
        assert names_as_issuer(made.der, ca.der)
        assert (tls / "ca.pem").read_bytes() == ca.certificate_pem
        assert not (tls / "ca-key.pem").exists()
        kept = {path.name: path.read_bytes() for path in (tls / "before").iterdir()}
        assert kept == {name: before[name] for name in ("ca.pem", "ca-key.pem")}
    assert stat.S_IMODE((tls / "before" / "ca-key.pem").stat().st_mode) == 0o600
    assert server_certificate.is_exchanged(tls / "server.pem")
    again = server_certificate.authority_in(tls / "before")
    server_certificate.exchange(tls / "server.pem", tls / "server-key.pem", again, NOW)
    assert (tls / "ca.pem").read_bytes() == before["ca.pem"]


def test_an_authority_is_kept_under_a_passphrase(tmp_path: Path) -> None:
    ca = make_authority("next", NOW)
    server_certificate.keep_authority(tmp_path / "usb" / "ca", ca, b"swordfish")
    assert b"ENCRYPTED" in (tmp_path / "usb" / "ca" / "ca-key.pem").read_bytes()
    assert server_certificate.authority_in(tmp_path / "usb" / "ca", b"swordfish").der == ca.der
