"""`holdfastctl coordinators`: which there are, one more, one less, and the certificate of this one."""

import socket
import sqlite3
import ssl
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from coordinator.keys import derived_authority
from coordinator.keys import seed as seeds
from holdfast.ctl.socket import DIFFERENT, NOT_FOUND, REFUSED, UNANSWERED, UNCONFIRMED
from tests.fakes.hostile import relay
from tests.holdfast.operator_lab import Lab, running
from wire.certificate import Certificate, fingerprint, names_as_issuer, pem_to_der


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with running(tmp_path_factory.mktemp("lab")) as started:
        yield started


def shown(lab: Lab, name: str = "localhost") -> str:
    """The fingerprint of the certificate that whoever wants to join is shown, its chain and name verified."""
    context = ssl.create_default_context(cafile=str(lab.folder / "state/tls/ca.pem"))
    with (
        socket.create_connection(("127.0.0.1", lab.ports["join"]), timeout=30) as raw,
        context.wrap_socket(raw, server_hostname=name) as stream,
    ):
        return fingerprint(stream.getpeercert(binary_form=True))


def further(lab: Lab, folder: Path, database: str) -> tuple[object, ...]:
    state = ("--state", folder / "state", "--configuration", folder / "coordinator.toml")
    names = ("--cluster", "prod", "--url", "https://second.example:7443", "--root-key-id", "sha256:" + "ab" * 32)
    return ("coordinators", "prepare", "second", *names, "--database", database, *state)


def test_what_they_say_of_themselves(lab: Lab) -> None:
    told = lab.good("coordinators", "status", "--json").json
    (own,) = told["coordinators"]
    assert (own["coordinator_id"], own["state"], own["faults"]) == (told["answering"], "ready", [])
    said = lab.good("coordinators", "status").out
    assert f"{told['answering']} (answers)" in said
    assert told["manifest"] in said
    outside = "UPDATE coordinator_reports SET reason = 'no room'"
    with closing(sqlite3.connect(lab.folder / "state" / "coordinator.db", timeout=60)) as database, database:
        database.execute(outside)
    ran = lab.ctl("coordinators", "status")
    assert (ran.status, f"{told['answering']}: no room" in ran.out) == (DIFFERENT, True)


def test_an_identity_that_is_lost_is_replaced_on_its_machine(lab: Lab) -> None:
    """rules H0, H24: until then it is not ready, and says so"""
    pin = ("coordinators", "pin", "--configuration", lab.configuration)
    file = lab.folder / "state" / "keys" / "identity.pem"
    (entry,) = lab.good("coordinators", "list", "--json").json["coordinators"]
    assert lab.ctl(*pin, "--yes").status == REFUSED  # it runs
    lab.stop()
    assert "the manifest names this identity" in lab.ctl(*pin, "--yes").err
    file.unlink()
    ran = lab.ctl(*pin, "--yes")
    assert (ran.status, entry["identity_sha256"] in ran.err, file.exists()) == (REFUSED, True, False)
    lab.start()
    ran = lab.ctl("coordinators", "status")
    assert (ran.status, "not_in_manifest" in ran.out) == (DIFFERENT, True)
    assert "not_in_manifest" in lab.ctl("allow", "add", "node-b").err
    lab.stop()
    assert lab.ctl(*pin, "--anew").status == UNCONFIRMED
    made = lab.good(*pin, "--anew", "--yes").out
    lab.start()
    (own,) = lab.good("coordinators", "status", "--json").json["coordinators"]
    assert own["identity"] in made
    assert own["identity"] != entry["identity_sha256"]
    lab.good("allow", "add", "node-b")
    assert lab.good("audit", "verify", "--json").json["good"]
    assert "PRIVATE" in file.read_text()
    assert "PRIVATE" not in made + lab.log()


def test_who_the_coordinators_are_is_signed_elsewhere_and_brought_back(lab: Lab, tmp_path: Path) -> None:
    """rules H49: with a mesh key of its own, which the coordinator signs with at once; and only once"""
    (entry,) = lab.good("coordinators", "list", "--json").json["coordinators"]
    name, file = entry["coordinator_id"], tmp_path / "set.json"
    before = lab.good("coordinators", "status", "--json").json["manifest"]
    assert "coord-9 is no coordinator" in lab.ctl("coordinators", "set", name, "coord-9", "--request", file).err
    assert "is the one that answers" in lab.ctl("coordinators", "set", "coord-9", "--request", file).err
    said = lab.good("coordinators", "set", name, "--request", file).out
    assert f"keeps the coordinator {name}" in said
    assert f"back here:            holdfastctl coordinators commit {file.name}" in said
    assert "signatures of root keys are missing" in lab.ctl("coordinators", "commit", file).err
    assert "coordinators commit" in lab.ctl("trust", "import", file).err
    lab.good("trust", "sign", file, "--root-key", lab.roots, "--yes")
    assert "it has all signatures" in lab.good("trust", "show-request", file).out
    done = lab.good("coordinators", "commit", file, "--json").json
    assert (done["coordinators"], done["manifest"] != before) == ([name], True)
    assert lab.good("coordinators", "status", "--json").json["manifest"] == done["manifest"]
    held = {key["key_id"]: set(key["faults"].values()) for key in lab.good("rotate", "status", "--json").json["held"]}
    assert held[done["mesh_key"]] == {None}
    ran = lab.ctl("coordinators", "commit", file)
    assert (ran.status, "is in place" in ran.err) == (REFUSED, True)
    socket = tmp_path / "spoilt.sock"
    for named, is_fetched in (((name,), False), ((name, "coord-9"), True)):
        with relay(lab.socket, socket, instead=lambda _, named=named: {**done, "coordinators": named}):
            said = lab.good("coordinators", "commit", file, "--socket", socket).out
        assert (f"{done['mesh_key']}: signs here from now on" in said) is True
        assert ("fetch it by themselves" in said, "opens on no other machine" in said) == (is_fetched, is_fetched)
        socket.unlink()
    (added,) = [row for row in lab.good("audit", "--json").json["entries"] if row["action"] == "coordinator.set"]
    assert done["mesh_key"] in str(added["after"])
    assert lab.good("audit", "verify", "--json").json["good"]


def test_a_certificate_is_renewed_and_shown_after_a_reload(lab: Lab) -> None:
    """rules P13, K34: the entry follows, and another name is served; the CA that nodes have stays"""
    before = shown(lab)
    config = ("--configuration", lab.configuration)
    made = lab.good(
        "coordinators", "certificate", "--host", "localhost", "--host", "new.example", *config, "--json"
    ).json
    assert made["names"] == ["localhost", "new.example"]
    assert shown(lab) == before
    lab.reload()
    assert shown(lab, "new.example") == made["fingerprint"] != before
    lab.good("coordinators", "status")
    (entry,) = lab.good("coordinators", "list", "--json").json["coordinators"]
    assert entry["certificate_sha256"] == made["fingerprint"]
    certificate = lab.good("status", "--json").json["certificate"]
    assert certificate == {"sha256": made["fingerprint"], "expires_at": made["not_after"]}
    assert f"until {made['not_after']}" in lab.good("status").out
    assert made["fingerprint"] in lab.good("coordinators", "list").out
    again = lab.good("coordinators", "certificate", *config)
    assert "new.example" in again.out
    assert "systemctl reload holdfast-coordinator" in again.out
    assert "PRIVATE" not in again.out + again.err
    lab.reload()
    assert Certificate.read(ssl.PEM_cert_to_DER_cert((lab.folder / "state/tls/server.pem").read_text())).fingerprint \
        == shown(lab, "new.example") != made["fingerprint"]  # fmt: skip


def test_the_one_that_answers_stays(lab: Lab) -> None:
    (entry,) = lab.good("coordinators", "list", "--json").json["coordinators"]
    assert lab.ctl("coordinators", "remove", entry["coordinator_id"]).status == UNCONFIRMED
    ran = lab.ctl("coordinators", "remove", entry["coordinator_id"], "--yes")
    assert (ran.status, "in_use" in ran.err) == (REFUSED, True)
    assert lab.ctl("coordinators", "remove", "nobody", "--yes").status == NOT_FOUND
    assert f"{entry['coordinator_id']} (answers)" in lab.good("coordinators", "list").out


@pytest.mark.parametrize(
    ("database", "status", "said"),
    [
        ("sqlite:///{lab}/state/coordinator.db", REFUSED, "PostgreSQL"),
        ("postgresql+psycopg://holdfast@/prod?host={folder}", UNANSWERED, "--database"),
        ("nonsense", REFUSED, "--database"),
    ],
)
def test_a_database_that_is_none_is_named(lab: Lab, tmp_path: Path, database: str, status: int, said: str) -> None:
    """rules A14: nothing is made, and no driver's trace is printed; `init` says the same"""
    url = database.format(lab=lab.folder, folder=tmp_path)
    ran = lab.ctl(*further(lab, tmp_path / "second", url))
    assert (ran.status, said in ran.err, "Traceback" in ran.err) == (status, True, False), ran
    assert not list(tmp_path.iterdir())
    if not url.startswith("sqlite"):
        place = ("--state", tmp_path / "s", "--root-keys-to", tmp_path / "r", "--configuration", tmp_path / "c.toml")
        ran = lab.ctl("init", "prod", "--url", "https://c.example:7443", "--database", url, *place)
        assert (ran.status, said in ran.err, "Traceback" in ran.err) == (status, True, False), ran
        assert not list(tmp_path.iterdir())


def test_a_certificate_of_elsewhere_is_renewed_there(lab: Lab, tmp_path: Path) -> None:
    text = lab.configuration.read_text()
    given = tmp_path / "given.toml"
    given.write_text(
        text.replace(f'certificate = "{lab.folder}/state/tls/server.pem"', 'certificate = "credential:tls"')
    )
    assert given.read_text() != text
    ran = lab.ctl("coordinators", "certificate", "--configuration", given)
    assert (ran.status, "service manager" in ran.err) == (REFUSED, True)
    (tmp_path / "elsewhere").mkdir()
    ran = lab.ctl("coordinators", "certificate", "--ca", tmp_path / "elsewhere", "--configuration", lab.configuration)
    assert (ran.status, "ca-key.pem is not there" in ran.err) == (REFUSED, True)


def test_another_ca_is_not_shown_by_a_renewal(lab: Lab, tmp_path: Path) -> None:
    """rules K15: nodes would refuse it"""
    before = (lab.folder / "state/tls/server.pem").read_bytes()
    lab.good("coordinators", "ca", "begin", "--to", tmp_path / "next", "--yes")
    ran = lab.ctl("coordinators", "certificate", "--ca", tmp_path / "next", "--configuration", lab.configuration)
    assert (ran.status, "coordinators ca use" in ran.err) == (REFUSED, True)
    assert (lab.folder / "state/tls/server.pem").read_bytes() == before
    lab.good("coordinators", "ca", "cancel", "--yes")
    ran = lab.ctl("coordinators", "ca", "use", "--ca", tmp_path / "next", "--configuration", lab.configuration)
    assert (ran.status, "ca begin" in ran.err) == (REFUSED, True)


def test_a_cluster_whose_ca_is_a_file_is_carried_over_to_one_that_follows_from_the_seed(tmp_path: Path) -> None:
    """rules K15: by the exchange that there is; afterwards a certificate is renewed without any file, and the next CA
    is of the next generation
    """
    with running(tmp_path, "--ca-key-to", tmp_path / "stick") as lab:
        certificate = ("coordinators", "certificate", "--configuration", lab.configuration)
        use = ("coordinators", "ca", "use", "--configuration", lab.configuration)
        assert "ca-key.pem is not there" in lab.ctl(*certificate).err
        assert "no CA that is listed follows from a seed" in lab.ctl(*use).err
        seed = seeds.load(lab.keys, {})
        for generation in (1, 2):
            begun = lab.good("coordinators", "ca", "begin", "--yes")
            assert "coordinators ca use\n" in begun.out
            lab.good(*use)
            assert "ca_in_use" in lab.ctl("coordinators", "ca", "finish", "--yes").err, "until the reload"
            lab.reload()
            lab.good("coordinators", "ca", "finish", "--yes")
            ca = (lab.folder / "state/tls/ca.pem").read_bytes()
            assert derived_authority.generation_of(seed, pem_to_der(ca)) == generation
            lab.good(*certificate)
            lab.reload()
            assert names_as_issuer(pem_to_der((lab.folder / "state/tls/server.pem").read_bytes()), pem_to_der(ca))
        assert not (lab.folder / "state/tls/ca-key.pem").exists()
