"""A coordinator that is restored from a backup of the middle of a change; with the programs as they are shipped."""

import signal
from pathlib import Path

from tests.journeys import edges
from tests.journeys.edges import Edges
from tests.journeys.test_backup import backed_up, lose_database
from tests.journeys.test_restored_backup import is_said_to_be_put_back
from tests.journeys.test_rollout_killed import NAMES, NEW, begin, rings

LATER = "third.example"


def restore(fleet: Edges, backup: Path) -> None:
    """As docs/operating.md says it."""
    lab = fleet.lab
    lab.stop()
    lose_database(lab)
    (lab.folder / "state").rename(lab.folder / "aside")
    lab.good("restore", backup, "--configuration", lab.configuration)
    lab.start()


def has_heard(fleet: Edges) -> bool:
    """Nodes ask in their own time: they are told that it is worth it now (rules P14)."""
    for node in fleet.nodes.values():
        node.process.send_signal(signal.SIGHUP)
    return is_said_to_be_put_back(fleet.lab)


def test_a_change_that_was_open_in_the_backup_is_halted(tmp_path: Path) -> None:
    """The canary ran it, and later all ran something else: no node is given anything by what the backup knows of that,
    before a person has raised the epoch, and the files are applied once more.
    """
    with edges.running(tmp_path, len(NAMES)) as fleet:
        change = begin(fleet, rings(300))
        fleet.until(lambda: len(fleet.run(NEW)) == 1)
        backup = backed_up(fleet.lab, tmp_path)
        fleet.lab.good("changes", "halt", change)
        fleet.declare(LATER)
        fleet.lab.good("apply", "-f", fleet.declared, "--yes", "--wait", "--now", "after the backup")
        fleet.until_all_run(LATER)

        restore(fleet, backup)
        fleet.until(lambda: has_heard(fleet))
        found = fleet.change(change)
        assert (found["state"], "restored" in found["why"]) == ("halted", True)
        assert len(fleet.run(LATER)) == len(NAMES)

        fleet.lab.good("epoch", "raise", "--root-key", fleet.lab.roots, "--yes")
        assert fleet.change(change)["state"] == "halted"
        fleet.lab.good("apply", "-f", fleet.declared, "--yes", "--wait", "--now", "once more")
        assert fleet.change(change)["state"] == "superseded"
        fleet.until_all_run(LATER)
