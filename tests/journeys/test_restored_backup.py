"""A coordinator whose database is put back to an old copy: both daemons and the operator's command as processes."""

import shutil
import socket
from collections.abc import Callable
from pathlib import Path

from tests.holdfast.operator_lab import Lab
from tests.journeys.gateway import Gateway, apply, declare


def database(lab: Lab) -> Path:
    (found,) = (lab.folder / "state").glob("*.db")
    return found


def put_back(lab: Lab, copy: Path) -> None:
    """As an operator does who has the copy of one evening, and no more."""
    for name in ("-wal", "-shm"):
        database(lab).with_name(database(lab).name + name).unlink(missing_ok=True)
    shutil.copy(copy, database(lab))


def readiness(lab: Lab) -> tuple[int, str]:
    with socket.create_connection(("127.0.0.1", lab.ports["probes"])) as probe:
        probe.sendall(b"GET /probe/readiness HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        data = b"".join(iter(lambda: probe.recv(4096), b"")).decode()
    return int(data.split()[1]), data


def until(holds: Callable[[], bool], gateway: Gateway) -> None:
    gateway.until(holds, hinted=True)


def is_said_to_be_put_back(lab: Lab) -> bool:
    """And not only that it is not ready, as a coordinator that begins is not either."""
    status, said = readiness(lab)
    return status == 503 and "was restored from an old backup" in said


def test_it_stops_the_node_goes_on_and_a_new_epoch_brings_them_together(lab: Lab, gateway: Gateway, tmp_path: Path):
    """rules K41, P30, X12, A5: proven by the head that the node holds, and lasting over a restart"""
    declare(lab, 8081)
    gateway.join(8081)
    lab.stop()
    shutil.copy(database(lab), tmp_path / "copy.db")
    lab.start()
    declare(lab, 8082)
    until(lambda: gateway.port() == 8082, gateway)
    lab.stop()

    put_back(lab, tmp_path / "copy.db")
    lab.start()
    until(lambda: is_said_to_be_put_back(lab), gateway)
    assert "holdfastctl epoch raise" in readiness(lab)[1]
    assert "holdfastctl epoch raise" in lab.good("status").out
    assert "restored from an old backup" in lab.good("status", "--json").json["restored_backup"]
    assert "NOT READY" in lab.ctl("fleet").out
    assert gateway.port() == 8082
    assert gateway.status["state"] == "active"

    lab.stop()
    lab.start()
    assert is_said_to_be_put_back(lab)
    refused = lab.ctl("tokens", "create")
    assert refused.status != 0 and "epoch raise" in refused.err
    held_back = apply(lab, 8083)
    assert held_back.status != 0 and "held back" in held_back.out
    assert gateway.port() == 8082

    lab.good("epoch", "raise", "--root-key", lab.roots, "--yes")
    until(lambda: readiness(lab)[0] == 200, gateway)
    until(lambda: gateway.port() == 8083 and gateway.status["state"] == "active", gateway)
    assert gateway.status["head"]["authority_epoch"] == 2
    assert lab.good("status", "--json").json["restored_backup"] == ""


def test_bundles_of_after_the_backup_are_brought_in_first(lab: Lab, tmp_path: Path):
    """rules K41, S35: nodes hold them, so their numbers must not come again with another content."""
    lab.stop()
    shutil.copy(database(lab), tmp_path / "copy.db")
    lab.start()
    lab.good("rotate", "add", "--new-key-to", lab.keys, "--root-key", lab.roots, "--yes")
    lab.good("epoch", "raise", "--root-key", lab.roots, "--yes")
    files = lab.good("trust", "export", "--to", tmp_path / "bundles", "--json").json["files"]
    assert len(files) == 3
    lab.stop()
    put_back(lab, tmp_path / "copy.db")
    lab.start()

    (tmp_path / "nonsense.hfs").write_bytes(b"no bundle")
    refused = lab.ctl("trust", "import", tmp_path / "nonsense.hfs")
    assert refused.status != 0 and "bad_request" in refused.err and "nonsense.hfs is no trust bundle" in refused.err
    assert lab.ctl("trust", "import", *files, lab.configuration).status != 0
    assert lab.good("trust", "import", *reversed(files), "--json").json == {"added": [2, 3]}
    assert lab.good("trust", "import", *files, "--json").json == {"added": []}
    status = lab.good("status", "--json").json
    assert (status["trust_bundle"]["config_version"], status["authority_epoch"]) == (3, 2)
    assert lab.good("trust", "export", "--to", tmp_path / "again", "--json").status == 0
    for path in files:
        assert (tmp_path / "again" / Path(path).name).read_bytes() == Path(path).read_bytes()


def test_the_number_of_a_bundle_that_a_node_holds_does_not_come_again(lab: Lab, gateway: Gateway, tmp_path: Path):
    """rules K41, S35: the way back of docs/operating.md, from a copy that is older than the last bundle"""
    declare(lab, 8081)
    gateway.join(8081)
    lab.stop()
    shutil.copy(database(lab), tmp_path / "copy.db")
    lab.start()
    lab.good("trust", "export-request", "--root-key", lab.roots, "--yes")
    files = lab.good("trust", "export", "--to", tmp_path / "bundles", "--json").json["files"]
    until(lambda: gateway.status["trust_bundle_version"] == 2, gateway)
    lab.stop()

    put_back(lab, tmp_path / "copy.db")
    lab.start()
    until(lambda: is_said_to_be_put_back(lab), gateway)
    assert "holdfastctl trust import" in lab.good("status").out
    request = ("epoch", "raise", "--request", tmp_path / "never-signed.json")
    until(lambda: "gateway hold" in lab.ctl(*request).err, gateway)
    raising = ("epoch", "raise", "--root-key", lab.roots, "--yes")
    assert "holdfastctl trust import" in lab.ctl(*raising).err
    assert lab.good("trust", "import", *files, "--json").json == {"added": [2]}
    lab.good(*raising)
    until(lambda: gateway.status["trust_bundle_version"] == 3 and readiness(lab)[0] == 200, gateway)
    declare(lab, 8083)
    until(lambda: gateway.port() == 8083, gateway)


def test_another_bundle_of_a_number_that_is_taken_is_a_conflict(lab: Lab, tmp_path: Path):
    """rules S35: it is not passed over as if it were here."""
    lab.stop()
    shutil.copy(database(lab), tmp_path / "copy.db")
    lab.start()
    one = made_bundle(lab, tmp_path / "one")
    lab.stop()
    put_back(lab, tmp_path / "copy.db")
    lab.start()
    two = made_bundle(lab, tmp_path / "two")
    before = lab.good("trust", "show", "--json").json
    for files in ((one,), (two, one)):
        refused = lab.ctl("trust", "import", *files)
        assert refused.status != 0 and "conflict" in refused.err, refused
    assert lab.good("trust", "import", two, "--json").json == {"added": []}
    assert lab.good("trust", "show", "--json").json == before


def made_bundle(lab: Lab, to: Path) -> Path:
    """Bundle 2, as a file."""
    lab.good("trust", "export-request", "--root-key", lab.roots, "--yes")
    lab.good("trust", "export", "--to", to)
    return to / "trust_bundle-2.hfs"
