"""The units of systemd: what the programs expect of them, what they allow, and that both forms are one."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from agent.awaited import settings_without_a_node
from agent.config.configuration import LocalTable, NodeTable, ServiceTable
from agent.config.credentials import JOIN_TOKEN, NODE_KEY
from agent.config.units import VALIDATE, Verb
from coordinator.base.places import DEFAULT_PATH
from coordinator.setup.configuration import OPTIONAL
from holdfast.ctl.machine import STATE
from tests.citations import ROOT
from tests.documented_commands import fault
from wire.limits import ADMIN, JOIN, LOCAL, REMOTE

UNITS = ROOT / "packaging/systemd"
DEB = ROOT / "packaging/deb"
DAEMONS = ["holdfast-agent.service", "holdfast-agent@.service", "holdfast-coordinator.service"]
AGENT = LocalTable()
HELD, MET = 34 << 10, 75 << 10  # bytes of a held request, and of a handshake (sizing.md)


def lines(name):
    """Settings alone, in their order."""
    text = (UNITS / name).read_text()
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def setting(name, key):
    """All values of a setting."""
    return [line.partition("=")[2] for line in lines(name) if line.startswith(f"{key}=")]


def as_instance(line):
    """A line of the first cluster's agent, as a further cluster's has it."""
    line = re.sub(r"(Description=Holdfast (?:node agent|local API))$", r"\1, cluster %i", line)
    line = re.sub(r"holdfast-agent\.(socket|service)", r"holdfast-agent@%i.\1", line)
    line = re.sub(r"((?:State|Runtime)Directory=holdfast)$", r"\1-%i", line)
    line = re.sub(r"(LoadCredential=)(.*)$", r"\1\2:\2.%i", line)
    return line.replace("/agent.toml", "/agent-%i.toml").replace("/run/holdfast/agent", "/run/holdfast-%i/agent")


@pytest.mark.parametrize("kind", ["service", "socket"])
def test_a_further_cluster_is_served_as_the_first_one(kind):
    of_its_own = ("AssertPathExists=", "ReadWritePaths=")
    instance = [line for line in lines(f"holdfast-agent@.{kind}") if not line.startswith(of_its_own)]
    first = [line for line in lines(f"holdfast-agent.{kind}") if not line.startswith(of_its_own)]
    assert instance == [as_instance(line) for line in first]


def test_the_agents_unit_gives_it_what_its_defaults_name():
    assert setting("holdfast-agent.socket", "ListenStream") == [str(AGENT.socket_path)]
    assert setting("holdfast-agent.socket", "SocketMode") == [f"{AGENT.socket_mode:04o}"]
    assert setting("holdfast-agent.service", "StateDirectory") == [_state_directory().name]
    assert setting("holdfast-agent.service", "RuntimeDirectory") == [AGENT.projection_directory.name]
    assert setting("holdfast-agent.service", "LoadCredential") == [NODE_KEY, JOIN_TOKEN]
    assert settings_without_a_node(ROOT / "packaging/etc/agent.toml") is not None


def _state_directory():
    return NodeTable(cluster_id="a", node_id="b").state_directory


def test_the_coordinators_unit_gives_it_what_its_defaults_name():
    unit = "holdfast-coordinator.service"
    assert setting(unit, "StateDirectory") == [STATE.name]
    socket = OPTIONAL["listen", "admin_socket"]
    assert setting(unit, "RuntimeDirectory") == [socket.split("/")[2]]
    assert setting(unit, "ExecStart")[0].endswith(str(DEFAULT_PATH))


@pytest.mark.parametrize("unit", DAEMONS)
def test_a_daemon_is_watched_restarted_and_has_no_powers(unit):
    """rules A12, X13; threats D-61: no capability, no core dump with keys in it"""
    asked = dict(line.partition("=")[::2] for line in lines(unit) if "=" in line)
    assert (asked["Type"], asked["NotifyAccess"], asked["Restart"]) == ("notify", "main", "always")
    assert int(asked["WatchdogSec"]) <= 30
    assert (asked["CapabilityBoundingSet"], asked["AmbientCapabilities"], asked["LimitCORE"]) == ("", "", "0")
    assert asked["StartLimitIntervalSec"] == "0"
    assert asked["PrivateUsers"] == "no"  # yes hides who calls


@pytest.mark.parametrize("unit", DAEMONS)
def test_a_daemon_starts_with_a_network_and_a_clock_as_an_account_of_its_own(unit):
    """rules K52: what it keeps only that account reads; that nothing starts unconfigured is said by its own tests
    (test_before_there_is_a_cluster_it_says_how_one_begins, test_the_agents_as_installed_names_no_cluster)
    """
    (after,) = setting(unit, "After")
    assert {"network-online.target", "time-sync.target"} <= set(after.split())
    assert setting(unit, "Wants") == ["network-online.target"]
    assert setting(unit, "User") == ["holdfast-coordinator" if "coordinator" in unit else "holdfast"]
    assert setting(unit, "StateDirectoryMode") == ["0700"]


def test_a_coordinator_has_descriptors_for_every_caller_it_lets_in():
    """threats M13: all listeners full, and as many again for everything else; a bound for what nobody has thought of"""
    unit = "holdfast-coordinator.service"
    callers = sum(each.connections + each.backlog for each in (REMOTE, JOIN, ADMIN, LOCAL, LOCAL))
    assert int(setting(unit, "LimitNOFILE")[0]) >= 2 * callers
    most = int(setting(unit, "MemoryMax")[0].removesuffix("G")) << 30
    assert most >= 2 * (REMOTE.connections * HELD + REMOTE.sending_bytes + (REMOTE.handshakes + JOIN.connections) * MET)
    agent = "holdfast-agent.service"
    assert int(setting(agent, "LimitNOFILE")[0]) >= 2 * 2 * LOCAL.connections


def test_backups_are_made_with_the_daemons_own_rights_and_no_more():
    """threats D-61: what the daemon may not do, its backup may not"""
    daemon, made = "holdfast-coordinator.service", "holdfast-backup.service"
    (command,) = setting(made, "ExecStart")
    assert fault(command.removeprefix("/usr/bin/")) == ""
    assert f"--to /var/lib/{setting(made, 'StateDirectory')[0].split()[1]} --keep 14" in command
    assert setting(made, "StateDirectory")[0].split()[0] == STATE.name
    own = set(lines(daemon)[lines(daemon).index("CapabilityBoundingSet=") : lines(daemon).index("[Install]")])
    assert own - set(lines(made)) == {"PrivateUsers=no"}
    for key in ("User", "Group", "UMask", "LimitCORE"):
        assert setting(made, key) == setting(daemon, key)
    assert setting("holdfast-backup.timer", "Persistent") == ["yes"]
    assert "packaging/systemd/holdfast-backup.*" in (DEB / "rules").read_text()


@pytest.mark.parametrize("verb", Verb)
def test_a_request_of_the_agent_has_its_units(verb):
    """Where the agent writes and looks (agent/services/notifiers.py) is where the units watch and answer"""
    requests = AGENT.reload_directory.with_name(str(verb))
    answers = AGENT.reload_answers_directory.with_name(f"holdfast-{verb}")
    assert setting(f"holdfast-{verb}@.path", "PathChanged") == [f"{requests}/%i"]
    answering = f"/usr/libexec/holdfast/tell-unit answer {verb} %i"
    assert setting(f"holdfast-{verb}@.service", "ExecStopPost") == [answering]
    assert answers == Path(f"/run/holdfast-{verb}")  # tell-unit's
    made = (DEB / "holdfast-agent.tmpfiles").read_text()
    assert f"d {requests} 0755 holdfast holdfast -\n" in made
    assert f"d {answers} 0755 root root -\n" in made
    allowed = setting("holdfast-agent@.service", "ReadWritePaths")[0].split()
    assert f"-{requests}" in allowed


def test_a_candidate_is_asked_about_where_its_unit_looks():
    """Where agent/services/validator_units.py writes and looks is where the units and validate-unit do"""
    requests = AGENT.reload_directory.with_name(VALIDATE)
    answers = AGENT.reload_answers_directory.with_name(f"holdfast-{VALIDATE}")
    assert setting("holdfast-validate@.path", "PathExists") == [f"{requests}/%i"]
    assert setting("holdfast-validate@.path", "Unit") == ["holdfast-validating@%i.service"]
    script = (ROOT / "packaging/bin/validate-unit").read_text()
    assert f"\nREQUESTS={requests}\n" in script
    for place in (f"{answers}/$unit", f"{AGENT.candidates_directory}/$id"):
        assert f'"{place}"' in script
    made = (DEB / "holdfast-agent.tmpfiles").read_text()
    assert f"d {requests} 0755 holdfast holdfast -\n" in made
    assert f"d {AGENT.candidates_directory} 0700 holdfast holdfast -\n" in made
    assert f"d {answers} 0755 root root -\n" in made
    for unit in ("holdfast-agent.service", "holdfast-agent@.service"):
        assert f"-{AGENT.candidates_directory}" in setting(unit, "ReadWritePaths")
    assert f"-{requests}" in setting("holdfast-agent@.service", "ReadWritePaths")[0].split()


def test_who_judges_a_candidate_may_nothing_that_root_does_not_say():
    """threats D-61: no account, no power and nothing of ours but the candidate"""
    unit = "holdfast-validate@.service"
    assert setting(unit, "DynamicUser") == ["yes"]
    assert setting(unit, "CapabilityBoundingSet") == [""]
    assert setting(unit, "TemporaryFileSystem") == [f"{AGENT.projection_directory}:ro"]
    assert setting(unit, "ExecStart") == ["/usr/libexec/holdfast/validate-unit unset %i"]
    assert setting(unit, "ExecStartPost") == ["+/usr/libexec/holdfast/validate-unit accept %i"]
    assert setting(unit, "LimitFSIZE") == ["16M"], "/run is everybody's"
    default = ServiceTable(name="a", scopes=("*",)).validate_timeout_s
    assert int(setting(unit, "TimeoutStartSec")[0].removesuffix("s")) < default


def test_names_that_are_taken():
    """What else of ours is /var/lib/holdfast-* or /run/holdfast-* is no cluster's name"""
    taken = {path.name for path in (ROOT / "packaging/reserved-names").iterdir()}
    assert {"coordinator", "backups", "candidates", "validate", "validating", *Verb} <= taken
    for unit in ("holdfast-agent@.service", "holdfast-agent@.socket"):
        assert setting(unit, "AssertPathExists") == ["!/usr/share/holdfast/reserved-names/%i"]
    assert "packaging/reserved-names usr/share/holdfast\n" in (DEB / "holdfast-agent.install").read_text()


@pytest.mark.parametrize("unit", sorted(path.name for path in UNITS.iterdir()))
@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd-analyze here")
def test_systemd_understands_it(tmp_path, unit):
    """Also Debian 12's, which ignores what is newer: there is nothing that it warns of"""
    folder = tmp_path / "etc/systemd/system"
    shutil.copytree(UNITS, folder)
    for program in re.findall(r"(?<==)/\S+", "\n".join(f"={each}" for each in _programs())):
        path = tmp_path / program.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(0o755)
    asked = unit.replace("@.", "@one.")
    done = subprocess.run(
        ["systemd-analyze", "--man=no", f"--root={tmp_path}", "verify", asked],
        capture_output=True,
        text=True,
        check=False,
    )
    ours = [line for line in done.stderr.splitlines() if "holdfast" in line and "not found" not in line]
    assert ours == []


def _programs():
    for path in UNITS.glob("*.service"):
        yield from (line.partition("=")[2].split()[0] for line in lines(path.name) if line.startswith("Exec"))


@pytest.mark.parametrize("unit", [*DAEMONS, "holdfast-backup.service"])
@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd-analyze here")
def test_little_is_left_to_a_daemon_that_was_taken_over(unit):
    """At most 1.5 of 10, and the judge can say no"""
    command = ["systemd-analyze", "security", "--no-pager", "--offline=true"]
    judged = [
        subprocess.run([*command, f"--threshold={tenths}", str(UNITS / unit)], capture_output=True, check=False)
        for tenths in (15, 5)
    ]
    assert [each.returncode == 0 for each in judged] == [True, False]
