"""tell-unit, which root's services run for the agent: with a manager that has units in every state, as a program."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent.services.notifiers import NOT_RUNNING
from tests.citations import ROOT

SCRIPT = (ROOT / "packaging/bin/tell-unit").read_text()
SYSTEMCTL = """#!/bin/sh
# A manager with one unit: $FOLDER/state has its three states, $FOLDER/after those that follow a verb.
case $1 in
    show)
        case $2 in
            --property=SubState) grep SubState "$FOLDER/state" ;;
            *) cat "$FOLDER/state" ;;
        esac
        ;;
    *)
        echo "$@" >> "$FOLDER/called"
        case $(cat "$FOLDER/state") in *LoadState=not-found*) exit 5 ;; esac
        if [ -f "$FOLDER/after" ]; then cp "$FOLDER/after" "$FOLDER/state"; fi
        ;;
esac
"""
VERBS = ("reload", "restart", "signal")
DONE = {
    "reload": "try-reload-or-restart -- web.service",
    "restart": "try-restart -- web.service",
    "signal": "kill --kill-whom=main --signal=HUP -- web.service",
}


@dataclass
class Machine:
    """Its folders are `folder`'s, its systemctl the one above."""

    folder: Path

    def __post_init__(self) -> None:
        program = self.folder / "systemctl"
        program.write_text(SYSTEMCTL)
        program.chmod(0o755)
        self.in_state("loaded", "active", "running")
        for verb in VERBS:
            (self.folder / f"run/holdfast-{verb}").mkdir(parents=True)
            (self.folder / "run/holdfast" / verb).mkdir(parents=True)
            (self.folder / "run/holdfast" / verb / "web.service").write_text("HUP\n")

    def in_state(self, load: str, active: str, sub: str, *, file: str = "state") -> None:
        (self.folder / file).write_text(f"LoadState={load}\nActiveState={active}\nSubState={sub}\n")

    def asked(self, verb: str) -> str:
        """As the unit does: the verb, then what systemd makes of its exit status, then the answer."""
        status = self._run(verb, "web.service")
        result = "success" if status in (0, 100) else "exit-code"
        assert self._run("answer", verb, "web.service", SERVICE_RESULT=result, EXIT_STATUS=str(status)) == 0
        return (self.folder / f"run/holdfast-{verb}/web.service").read_text()

    def called(self) -> list[str]:
        file = self.folder / "called"
        return file.read_text().splitlines() if file.exists() else []

    def _run(self, *arguments: str, **environment: str) -> int:
        script = SCRIPT.replace("/run/", f"{self.folder}/run/")
        given = {"PATH": f"{self.folder}:/usr/bin:/bin", "FOLDER": str(self.folder), **environment}
        command = ["/bin/sh", "-c", script, "tell-unit", *arguments]
        return subprocess.run(command, env=given, capture_output=True, check=False).returncode


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("active", ["active", "reloading", "activating"])
def test_a_unit_that_runs_is_told(machine: Machine, verb: str, active: str) -> None:
    machine.in_state("loaded", active, "running")
    assert machine.asked(verb) == "success 0\n"
    assert machine.called() == [DONE[verb]]


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    ("active", "sub"), [("inactive", "dead"), ("failed", "failed"), ("deactivating", "stop-sigterm")]
)
def test_a_unit_that_does_not_run_is_no_success(machine: Machine, verb: str, active: str, sub: str) -> None:
    """Also a oneshot that has ended: `systemctl try-restart` says nothing of it, and succeeds."""
    machine.in_state("loaded", active, sub)
    assert machine.asked(verb) == f"{NOT_RUNNING}\n"
    assert machine.called() == []
    machine.in_state("loaded", "active", "running")
    assert machine.asked(verb) == "success 0\n"


def test_a_oneshot_that_stays_active_is_run_again_and_hears_no_signal(machine: Machine) -> None:
    machine.in_state("loaded", "active", "exited")
    assert machine.asked("restart") == "success 0\n"
    assert machine.asked("signal") == f"{NOT_RUNNING}\n"
    assert machine.called() == [DONE["restart"]]


@pytest.mark.parametrize("verb", ["reload", "restart"])
def test_a_unit_that_has_ended_in_between_is_no_success(machine: Machine, verb: str) -> None:
    machine.in_state("loaded", "failed", "failed", file="after")
    assert machine.asked(verb) == f"{NOT_RUNNING}\n"
    assert machine.called() == [DONE[verb]]


@pytest.mark.parametrize("verb", VERBS)
def test_a_unit_that_there_is_not_is_a_failure(machine: Machine, verb: str) -> None:
    machine.in_state("not-found", "inactive", "dead")
    assert machine.asked(verb) == "exit-code 5\n"


@pytest.mark.parametrize("asked", ["KILL\n", "HUP; reboot\n", ""])
def test_only_three_signals_can_be_asked_for(machine: Machine, asked: str) -> None:
    """threats D-61: root acts on the agent's word, so the word is one of three"""
    request = machine.folder / "run/holdfast/signal/web.service"
    request.write_text(asked)
    assert machine.asked("signal") == "exit-code 1\n"
    assert machine.called() == []
    request.write_text("USR2\n")
    assert machine.asked("signal") == "success 0\n"
    assert machine.called() == [DONE["signal"].replace("HUP", "USR2")]
