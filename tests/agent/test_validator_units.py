"""Validators that are units of root's: asked and answered by files, with the program that root's units run."""

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import trio
import trio.lowlevel
from trio.testing import wait_all_tasks_blocked

from agent.base.threads import Threads
from agent.config.configuration import ServiceTable
from agent.services.allowed_units import find_missing_units
from agent.services.unit_states import UnitState
from agent.services.validator_units import ValidatorUnit
from agent.services.validators import Validator, Validators
from tests.agent.test_projection import scope
from tests.agent.test_validators import answers
from tests.citations import ROOT

SYSTEMCTL = """#!/bin/sh
# The manager of one unit, whose command does what $FOLDER/will says: its words, systemd's result and exit status.
case "$1 $2" in
    "start --")
        printf '%s' "$(sed -n 1p "$FOLDER/will")" >> "$FOLDER/holdfast-validating/said/nginx"
        echo "$3" >> "$FOLDER/started"
        sed -n 2p "$FOLDER/will" > "$FOLDER/state"
        case $(cat "$FOLDER/state") in
            "success 0") sh "$FOLDER/validate-unit" accept nginx ;;
            "skipped") ;;
            *) echo "Job for $3 failed."; exit 1 ;;
        esac
        ;;
    "show --property=Result") sed 's/skipped/success/; s/ .*//' "$FOLDER/state" ;;
    "show --property=ExecMainStatus") cut -d ' ' -f 2 "$FOLDER/state" ;;
    "reset-failed --") echo "success 0" > "$FOLDER/state" ;;
esac
"""
SCRIPT = (ROOT / "packaging/bin/validate-unit").read_text()
CANDIDATE = scope("route_policy", {"routes": b'{"new":{}}'}, 2)
UNIT = "nginx"
FOLDERS = ("holdfast/validate", "holdfast-candidates", "holdfast-validate", *(
    f"holdfast-validating/{each}" for each in ("asked", "candidate", "said")
))  # fmt: skip


@dataclass
class Machine:
    """As the package's units: its folders are `folder`'s, and the script is theirs."""

    folder: Path
    state: UnitState = field(default_factory=lambda: UnitState(True))

    def __post_init__(self) -> None:
        for each in FOLDERS:
            (self.folder / each).mkdir(parents=True)
        (self.folder / "systemctl").write_text(SYSTEMCTL)
        (self.folder / "systemctl").chmod(0o755)
        (self.folder / "state").write_text("success 0\n")
        script = SCRIPT.replace("/run/", f"{self.folder}/")
        for account in ("root:root", "holdfast:"):
            script = script.replace(account, f"{os.geteuid()}:{os.getegid()}")
        (self.folder / "validate-unit").write_text(script)
        self.will("", "success 0")

    def unit(self, timeout_s: float = 60.0, label: str = "prod") -> ValidatorUnit:
        requests, candidates = self.folder / "holdfast/validate", self.folder / "holdfast-candidates"
        answers = self.folder / "holdfast-validate"
        return ValidatorUnit(UNIT, label, requests, candidates, answers, timeout_s, self.read_state)

    async def read_state(self, unit: str) -> UnitState:
        assert unit == "holdfast-validate@nginx.path"
        return self.state

    def validators(self, **more: object) -> Validators:
        made = Validators([Validator("web", ("route_policy/*",), self.unit(**more))], Threads())
        made.start()
        return made

    @property
    def request(self) -> Path:
        return self.folder / "holdfast/validate" / UNIT

    @property
    def candidate(self) -> Path:
        return self.folder / "holdfast-validating/candidate" / UNIT

    def will(self, words: str, came_of_it: str) -> None:
        """What its command says, and what systemd makes of its end."""
        (self.folder / "will").write_text(f"{words}\n{came_of_it}\n")

    def run(self) -> int:
        """As holdfast-validating@nginx.service, which is started as long as there is a request."""
        status = self.do("judge")
        assert not os.path.lexists(self.request)
        assert self.do("answer") == 0
        assert not os.path.lexists(self.candidate)
        return status

    def do(self, verb: str) -> int:
        command = ["/bin/sh", str(self.folder / "validate-unit"), verb, UNIT]
        given = {"PATH": f"{self.folder}:/usr/bin:/bin", "FOLDER": str(self.folder)}
        return subprocess.run(command, env=given, capture_output=True, check=False).returncode


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


async def serve(machine: Machine, task_status=trio.TASK_STATUS_IGNORED) -> None:
    task_status.started()
    while not machine.request.exists():
        await trio.lowlevel.checkpoint()
    machine.run()


NOT_RUN = "its command was not run: systemctl status holdfast-validate@nginx.service"
ANSWERS = [
    ("well", "success 0", None),
    ("no port 80", "exit-code 1", (True, "web: exit 1: no port 80")),
    ("", "exit-code 203", (False, "web: did not run: exit-code 203: Job for holdfast-validate@nginx.service failed.")),
    ("no command", "exit-code 127", (False, "web: exit 127: no command")),
    ("slow", "timeout 15", (False, "web: did not end in time: slow")),
    ("gone", "core-dump 6", (False, "web: did not run: core-dump 6: gone")),
    ("", "skipped", (False, f"web: did not run: not_judged : {NOT_RUN}")),
    ("never started", "success", (False, "web: did not run: not_judged : never started")),
]


@pytest.mark.parametrize(("words", "came_of_it", "wanted"), ANSWERS)
async def test_a_unit_judges_as_a_command_does(machine, words, came_of_it, wanted):
    """rules S67: its exit status and first words are the refusal's; what came to no end is no judgement"""
    made = machine.validators()
    machine.will(words, came_of_it)
    async with trio.open_nursery() as nursery:
        await nursery.start(serve, machine)
        refused = await made.refusal([CANDIDATE], [], 5, answers())
    assert (refused and (refused.judged, refused.detail)) == wanted
    left = [path for path in machine.folder.rglob("holdfast*/**/*") if path.is_file() and path.stat().st_size]
    assert left == [machine.folder / "holdfast-validate" / UNIT]
    assert left[0].stat().st_mode & 0o777 == 0o600


async def test_a_unit_that_nobody_enabled_is_said_at_once(machine):
    machine.state = UnitState(False)
    refused = await machine.validators().refusal([CANDIDATE], [], 5, answers())
    assert not refused.judged
    assert "systemctl enable --now holdfast-validate@nginx.path" in refused.detail
    assert not machine.request.exists()


async def test_a_unit_that_does_not_answer_is_no_judgement_and_what_was_asked_is_taken_back(machine):
    machine.state = UnitState(False, fault="systemctl: not there")
    refused = await machine.validators(timeout_s=0.3).refusal([CANDIDATE], [], 5, answers())
    assert (refused.judged, "no answer in 0.3 s" in refused.detail) == (False, True)
    assert not machine.request.exists()
    assert list((machine.folder / "holdfast-candidates").iterdir()) == []


async def test_an_answer_for_another_candidate_is_none(machine):
    """What was asked before a restart is answered all the same; whoever asks now sees that first, and waits on."""
    before = f"prod.{'0' * 32}"
    (machine.folder / "holdfast-candidates" / before).mkdir()
    machine.request.write_text(f"{before} web 4\n")
    assert machine.run() == 0
    assert (machine.folder / "holdfast-validate" / UNIT).read_text() == f"{before} success 0\n"
    machine.will("mine", "exit-code 1")
    made = machine.validators()
    async with trio.open_nursery() as nursery:
        await nursery.start(serve, machine)
        refused = await made.refusal([CANDIDATE], [], 5, answers())
    assert refused.detail == "web: exit 1: mine"


async def test_a_start_takes_back_what_is_its_own_and_leaves_a_further_clusters(machine):
    names = [f"prod.{'a' * 32}", f"prod.lab.{'b' * 32}"]
    for name in names:
        (machine.folder / "holdfast-candidates" / name).mkdir()
    machine.request.write_text(f"{names[0]} web 4\n")
    machine.validators()
    assert not machine.request.exists()
    assert [path.name for path in (machine.folder / "holdfast-candidates").iterdir()] == names[1:]
    machine.request.write_text(f"{names[1]} web 4\n")
    machine.validators()
    assert machine.request.exists()


async def test_the_agents_of_two_clusters_ask_the_same_unit_one_after_the_other(machine):
    """Neither the question of one is written over the other's, nor the answer."""
    machine.will("no", "exit-code 1")
    outcomes = {}

    async def judge(label: str) -> None:
        unit = machine.unit(label=label)
        staged = unit.new_place()
        staged.mkdir()
        outcomes[label] = str(await unit.judge(staged, "web", 5))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(judge, "prod")
        nursery.start_soon(judge, "lab")
        await wait_all_tasks_blocked()
        for _ in range(2):
            await nursery.start(serve, machine)
    assert outcomes == {"prod": "exit 1: no", "lab": "exit 1: no"}
    assert list((machine.folder / "holdfast-candidates").iterdir()) == []


def test_what_the_agent_could_put_in_a_candidate_leads_root_nowhere(machine):
    """threats D-61: neither a link in the place of a candidate, nor one in it, nor a name that is a path"""
    candidates, secret = machine.folder / "holdfast-candidates", machine.folder / "secret"
    secret.mkdir(mode=0o700)
    (secret / "key").write_text("key")
    inside = candidates / "prod.1"
    inside.mkdir()
    (inside / "key").symlink_to(secret / "key")
    (candidates / "prod.2").symlink_to(secret)
    for name in ("prod.1", "prod.2", "../secret", ".hidden", "", "prod.3"):
        machine.request.write_text(f"{name} web 4\n")
        assert machine.run() == 1
    assert (secret / "key").read_text() == "key"
    assert secret.stat().st_mode & 0o777 == 0o700
    os.mkfifo(machine.request)
    assert machine.run() == 1
    assert not (machine.folder / "started").exists()


def test_a_link_in_the_place_of_the_agents_folder_takes_nothing_of_roots_away(machine):
    """threats D-61: `validate` lies in a folder of the agent's, who may put there a link to any other"""
    requests, others = machine.request.parent, machine.folder / "etc"
    (others / UNIT).mkdir(parents=True)
    (others / UNIT / "nginx.conf").write_text("mine")
    requests.rmdir()
    requests.symlink_to(others)
    assert machine.do("judge") != 0
    assert (others / UNIT / "nginx.conf").read_text() == "mine"
    requests.unlink()
    requests.mkdir()
    (machine.folder / "holdfast-candidates/prod.1").mkdir()
    machine.request.write_text("prod.1 web 4\n")
    assert machine.run() == 0


def test_a_request_goes_first_also_where_nothing_can_be_judged(machine):
    """Else systemd starts the unit again and again, until it gives up the path unit, and nobody is judged any more."""
    (machine.folder / "holdfast-validating/said").rmdir()
    machine.request.write_text("prod.1 web 4\n")
    assert machine.do("judge") != 0
    assert not machine.request.exists()


def test_a_second_name_of_anothers_file_makes_it_nobodys_to_read(machine):
    """Where the kernel lets links be made to files of others (fs.protected_hardlinks=0)."""
    candidate, key = machine.folder / "holdfast-candidates/prod.1", machine.folder / "key"
    key.write_text("key")
    key.chmod(0o600)
    candidate.mkdir()
    (candidate / "key").hardlink_to(key)
    machine.request.write_text("prod.1 web 4\n")
    assert machine.run() == 1
    assert key.stat().st_mode & 0o777 == 0o600
    assert not (machine.folder / "started").exists()
    assert b"files and folders alone" in (machine.folder / "holdfast-validate" / UNIT).read_bytes()


BUSY = """
import itertools, os, sys
folder = int(sys.argv[1])
os.setgid(65534), os.setuid(65534)
for number in itertools.count():
    try:
        os.mkdir(f"late{number}", dir_fd=folder)
    except OSError:
        break
    if number == 20:
        print(flush=True)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be the agent and root at once")
def test_whoever_has_the_candidate_open_still_changes_nothing_in_it(machine):
    """threats D-61: what root takes it is taken with all that is made in it at that moment"""
    candidate, held = machine.folder / "holdfast-candidates/prod.1", machine.folder / "held"
    for number in range(300):
        (candidate / f"config/edge/{number}").mkdir(parents=True)
    subprocess.run(["chown", "-R", "65534:65534", candidate], check=True)
    (machine.folder / "will").write_text("\nsuccess 0\n")
    program = (machine.folder / "systemctl").read_text()
    look = f'"start --") find "$FOLDER/holdfast-validating/candidate/{UNIT}" ! -user 0 -o -perm /022 > {held};'
    (machine.folder / "systemctl").write_text(program.replace('"start --")', look))
    machine.request.write_text("prod.1 web 4\n")
    folder = os.open(candidate, os.O_RDONLY | os.O_DIRECTORY)
    with subprocess.Popen(
        [sys.executable, "-c", BUSY, str(folder)], pass_fds=[folder], stdout=subprocess.PIPE
    ) as attacker:
        attacker.stdout.readline()
        assert machine.run() == 0
        attacker.kill()
    os.close(folder)
    assert held.read_text() == ""


async def test_what_root_has_not_enabled_is_said_before_anything_changes():
    asked = []

    async def read_state(unit: str) -> UnitState:
        asked.append(unit)
        return UnitState("reload" in unit)

    web = ServiceTable(name="web", scopes=("*",), notify="reload", unit="nginx.service", validate_unit="nginx")
    alone = ServiceTable(name="app", scopes=("*",))
    found = await find_missing_units([web, alone], read_state)
    assert asked == ["holdfast-reload@nginx.service.path", "holdfast-validate@nginx.path"]
    remedy = "systemctl enable --now holdfast-validate@nginx.path"
    assert list(map(str, found)) == [f"service web: holdfast-validate@nginx.path is not enabled: {remedy}"]
