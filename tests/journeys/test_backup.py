"""The page `operating.md`, "The database is gone": what an operator sees, and the two ways that there are."""

import json
import shutil
from pathlib import Path

from tests.holdfast.operator_lab import Lab, Ran
from tests.journeys.gateway import Gateway, declare
from tests.journeys.test_restored_backup import database, is_said_to_be_put_back, readiness, until
from tests.world import programs


def backed_up(lab: Lab, to: Path, *more: object) -> Path:
    ran = lab.good("backup", "--to", to, "--configuration", lab.configuration, "--json", *more)
    return Path(ran.json["file"])


def started(lab: Lab) -> Ran:
    """What the daemon says that does not come up."""
    return programs.run("holdfast-coordinator", lab.configuration, folder=lab.folder)


def lose_database(lab: Lab) -> None:
    for each in database(lab).parent.glob("*.db*"):
        each.unlink()


def test_a_backup_of_before_brings_it_back_and_nodes_that_know_more_are_believed(
    lab: Lab, gateway: Gateway, tmp_path: Path
):
    """rules K41, P30: made while the node reports and configuration is published; the protections hold after it"""
    declare(lab, 8081)
    gateway.join(8081)
    files = [backed_up(lab, tmp_path)]
    for port in (8082, 8083):  # while it publishes
        declare(lab, port)
        files.append(backed_up(lab, tmp_path / f"at-{port}.tar"))
    for each in files:
        assert "prod" in lab.good("backup", "verify", each).out
    until(lambda: gateway.port() == 8083, gateway)
    backups = [each for each in lab.good("due", "--json").json["things"] if each["what"] == "backup"]
    assert [each["name"] for each in backups] == ["at-8083.tar"]

    lab.stop()
    lose_database(lab)
    missing = started(lab)
    said = missing.out + missing.err
    assert missing.status == 78 and "database_missing" in said and "holdfastctl restore" in said
    assert not list((lab.folder / "state").glob("*.db"))
    again = lab.ctl("init", "prod", "--url", "https://localhost:7443", "--state", "state", "--root-keys-to", "more",
                    "--configuration", lab.configuration, "--listen", "127.0.0.1:0", "--listen-join",
                    "127.0.0.1:0")  # fmt: skip
    assert again.status == 6 and "holdfastctl restore" in again.err
    refused = lab.ctl("restore", files[0], "--configuration", lab.configuration)
    assert refused.status == 6 and "move it away" in refused.err

    (lab.folder / "state").rename(lab.folder / "aside")
    back = lab.good("restore", files[0], "--configuration", lab.configuration)
    assert "Next: systemctl start" in back.out
    lab.start()
    until(lambda: is_said_to_be_put_back(lab), gateway)
    assert gateway.port() == 8083
    lab.good("epoch", "raise", "--root-key", lab.roots, "--yes")
    declare(lab, 8084)
    until(lambda: gateway.port() == 8084 and readiness(lab)[0] == 200, gateway)
    assert gateway.status["state"] == "active"


def test_without_a_backup_it_is_a_new_cluster_and_the_node_is_told_once(lab: Lab, gateway: Gateway, tmp_path: Path):
    """The other way of the page: what is declared is in files, the membership is gone"""
    declare(lab, 8081)
    gateway.join(8081)
    lab.stop()
    lose_database(lab)
    assert started(lab).status == 78
    (lab.folder / "state").rename(lab.folder / "aside")
    lab.configuration.unlink()
    shutil.move(lab.roots, tmp_path / "old-roots")
    lab.init()
    lab.start()
    declare(lab, 8082)
    gateway.kill()
    shutil.move(gateway.folder / "state" / "clusters" / "prod", tmp_path / "old-node")
    again = Gateway(tmp_path / "same-node", lab)
    shutil.copytree(gateway.folder / "state", again.folder / "state", dirs_exist_ok=True)
    try:
        again.join(8082)
        assert again.status["state"] == "active"
    finally:
        again.kill()


def test_the_command_line_says_what_is_wrong(lab: Lab, tmp_path: Path):
    configuration = ("--configuration", lab.configuration)
    assert lab.ctl("backup", *configuration).status == 2
    assert lab.ctl("backup", "--to", tmp_path / "x.tar", "--keep", 2, *configuration).status == 2
    (tmp_path / "nothing.tar").write_bytes(b"")
    damaged = lab.ctl("backup", "verify", tmp_path / "nothing.tar")
    assert damaged.status == 6 and "use another backup" in damaged.err
    nowhere = lab.ctl("backup", "--to", tmp_path / "none" / "x.tar", *configuration)
    assert nowhere.status == 6 and "nothing was written" in nowhere.err
    folder = tmp_path / "kept"
    folder.mkdir()
    file = backed_up(lab, folder, "--keep", 1, "--without-keys")
    told = lab.good("backup", "verify", file, "--json").json
    assert told["keys"] is False and "keys/token.pem" in told["left_out"]
    assert "no private keys" in lab.good("backup", "--to", folder / "one.tar", "--without-keys", *configuration).out
    assert json.loads(lab.good("due", "--json").out)["urgency"] == "fine"
