"""What installing, removing and purging do beside files: run as dpkg runs them, on folders of the test's."""

import os
import re
import subprocess

import pytest

from store.base.migration import FORMAT
from tests.packaging.installed import DEB

SCRIPTS = [f"{package}.{name}" for package, name in (
    ("holdfast-agent", "preinst"), ("holdfast-agent", "postinst"), ("holdfast-agent", "prerm"),
    ("holdfast-agent", "postrm"), ("holdfast-coordinator", "postinst"), ("holdfast-coordinator", "prerm"),
    ("holdfast-coordinator", "postrm"),
)]  # fmt: skip


@pytest.fixture
def machine(tmp_path):
    """`/` of the scripts. The account of the agent is the test's own."""
    for folder in ("var/lib", "run", "etc/holdfast", "etc/systemd/system/paths.target.wants", "bin"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "bin/id").write_text(f"#!/bin/sh\n[ $2 = holdfast ] && echo {os.geteuid()}\n")
    (tmp_path / "bin/id").chmod(0o755)
    return tmp_path


def run(machine, script, *arguments):
    text = (DEB / script).read_text().replace("@FORMAT@", str(FORMAT)).replace("#DEBHELPER#", "")
    for place in ("/var/lib", "/run/holdfast", "/run/systemd", "/etc/holdfast", "/etc/systemd"):
        text = text.replace(f" {place}", f" {machine}{place}")
    left = re.sub(re.escape(str(machine)), "", text, count=0)
    assert text.count(str(machine)) == len(re.findall(r"/(?:var/lib|run|etc)/", left)), "a path of this machine's own"
    return subprocess.run(
        ["/bin/sh", "-c", text, script, *arguments],
        env={"PATH": f"{machine}/bin:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def store(machine, name="holdfast", written=str(FORMAT)):
    state = machine / "var/lib" / name
    (state / "agent").mkdir(parents=True)
    (state / "agent/format").write_text(f"{written}\n")
    return state


@pytest.mark.parametrize("script", SCRIPTS)
def test_it_is_a_script_that_stops_at_what_fails(script):
    text = (DEB / script).read_text()
    assert text.startswith("#!/bin/sh\nset -e\n")
    assert text.count("#DEBHELPER#") == 1
    assert subprocess.run(["/bin/sh", "-n", str(DEB / script)], check=False).returncode == 0


@pytest.mark.parametrize("action", [("install",), ("install", "0.0.9"), ("upgrade", "0.2.0")])
@pytest.mark.parametrize("name", ["holdfast", "holdfast-osprey"])
def test_a_store_of_a_newer_format_keeps_an_older_version_out(machine, action, name):
    """rules L37: before a file is replaced, with both formats named; of a further cluster as well"""
    state = store(machine, name, str(FORMAT + 1))
    done = run(machine, "holdfast-agent.preinst", *action)
    assert done.returncode == 1
    assert f"{state} has store format {FORMAT + 1}; this version knows {FORMAT}" in done.stderr
    (state / "agent/format").write_text(f"{FORMAT}\n")
    assert run(machine, "holdfast-agent.preinst", *action).returncode == 0


@pytest.mark.parametrize("action", [("upgrade", "0.1.0", "0.2.0"), ("upgrade", "0.2.0", "0.2.0")])
def test_the_agents_account_keeps_no_newer_version_out(machine, action):
    """What it claims cannot be: an older version has never written it. An older package is refused all the same"""
    store(machine, written=str(FORMAT + 98))
    done = run(machine, "holdfast-agent.preinst", *action)
    assert done.returncode == 0
    assert f"store format {FORMAT + 98}" in done.stderr and "did not write it" in done.stderr
    assert run(machine, "holdfast-agent.preinst", "upgrade", "0.2.0", "0.1.0").returncode == 1


def a_pipe(format_):
    os.mkfifo(format_)


def a_link_to_what_never_ends(format_):
    format_.symlink_to("/dev/zero")


def a_link_in_a_circle(format_):
    format_.symlink_to(format_)


def a_folder(format_):
    format_.mkdir()


def a_large_file(format_):
    with format_.open("wb") as file:
        file.truncate(1 << 40)


def several_lines(format_):
    format_.write_text("1\n999\n" * 100_000)


def a_file_that_nobody_may_read(format_):
    format_.write_text("1\n")
    format_.chmod(0)


PLANTED = [a_pipe, a_link_to_what_never_ends, a_link_in_a_circle, a_folder, a_large_file, several_lines,
           a_file_that_nobody_may_read]  # fmt: skip


@pytest.mark.parametrize("plant", PLANTED)
@pytest.mark.parametrize("action", [("upgrade", "0.1.0", "0.2.0"), ("install",)])
def test_what_the_agents_account_plants_holds_up_no_package(machine, plant, action):
    """Nothing hangs, nothing fails; a pipe would wait for a writer for ever"""
    state = store(machine)
    (state / "agent/format").unlink()
    plant(state / "agent/format")
    done = run(machine, "holdfast-agent.preinst", *action)
    assert (done.returncode, done.stderr) == (0, "")
    further = store(machine, "holdfast-osprey", str(FORMAT + 1))
    assert run(machine, "holdfast-agent.preinst", "install").returncode == 1, f"{further} is looked at all the same"


@pytest.mark.parametrize("written", ["", "soon", str(FORMAT)])
def test_what_says_no_newer_format_is_for_the_agent_to_judge(machine, written):
    store(machine, written=written)
    assert run(machine, "holdfast-agent.preinst", "upgrade", "0.0.9").returncode == 0


def test_an_aborted_upgrade_is_not_refused(machine):
    """dpkg puts the version back that was there: it must not fail"""
    store(machine, written=str(FORMAT + 1))
    assert run(machine, "holdfast-agent.preinst", "abort-upgrade", "0.2.0").returncode == 0


@pytest.fixture
def running(machine):
    """`machine` under systemd; what systemd is asked for, a line each."""
    (machine / "run/systemd/system").mkdir(parents=True)
    for name in ("deb-systemd-invoke", "systemctl"):
        (machine / "bin" / name).write_text(f'#!/bin/sh\necho "$@" >> {machine}/asked\n')
        (machine / "bin" / name).chmod(0o755)

    def asked():
        return (machine / "asked").read_text().splitlines() if (machine / "asked").exists() else []

    return asked


def test_what_was_enabled_by_hand_goes_on_after_an_upgrade_and_a_removal(machine, running):
    """Further clusters' agents and what was allowed to other units; names as systemd escapes them"""
    wants = machine / "etc/systemd/system/paths.target.wants"
    for name in ("holdfast-agent@osprey.service", r"holdfast-reload@web\x2dlate.service.path", "other@web.path"):
        (wants / name).symlink_to("/usr/lib/systemd/system/whatever")
    assert run(machine, "holdfast-agent.postinst", "configure", "").returncode == 0
    assert running() == []
    done = run(machine, "holdfast-agent.postinst", "configure", "0.0.9")
    assert (done.returncode, done.stderr) == (0, "")
    assert running() == [
        "try-restart holdfast-agent@*.service",
        r"start holdfast-agent@osprey.service holdfast-reload@web\x2dlate.service.path",
    ]


def test_a_coordinator_that_was_removed_goes_on_and_one_without_a_cluster_is_not_started(machine, running):
    assert run(machine, "holdfast-coordinator.postinst", "configure", "0.0.9").returncode == 0
    assert not [line for line in running() if line.startswith("start")]
    (machine / "var/lib/holdfast-coordinator/keys").mkdir(parents=True)
    assert run(machine, "holdfast-coordinator.postinst", "configure", "0.0.9").returncode == 0
    assert running()[-1] == "start holdfast-coordinator.service"


def test_removal_keeps_the_state_and_purge_deletes_it(machine):
    """Of further clusters too; the coordinator's, which has a name alike, and what is not the agent's stay"""
    state, further = store(machine), store(machine, "holdfast-osprey")
    other = machine / "var/lib/holdfast-coordinator"
    other.mkdir()
    if os.geteuid() == 0:
        os.chown(other, 1, 1)
    token = machine / "etc/holdfast/join.token"
    token.write_text("token\n")
    wants = machine / "etc/systemd/system/paths.target.wants"
    ours, theirs = wants / "holdfast-reload@web.service.path", wants / "other@web.path"
    ours.symlink_to("/lib/systemd/system/holdfast-reload@.path")
    theirs.symlink_to("/lib/systemd/system/other@.path")
    assert run(machine, "holdfast-agent.postrm", "remove").returncode == 0
    assert state.exists() and further.exists() and token.exists() and ours.is_symlink()
    done = run(machine, "holdfast-agent.postrm", "purge")
    assert done.returncode == 0, done.stderr
    assert not (state.exists() or further.exists() or token.exists() or ours.is_symlink())
    assert theirs.is_symlink()
    assert other.exists() or os.geteuid() != 0
    assert run(machine, "holdfast-agent.postrm", "purge").returncode == 0  # again, with nothing there


def test_purging_the_coordinator_leaves_the_agent_alone(machine):
    agent = store(machine)
    state = machine / "var/lib/holdfast-coordinator"
    state.mkdir()
    (machine / "etc/holdfast/agent.toml").write_text("")
    assert run(machine, "holdfast-coordinator.postrm", "remove").returncode == 0
    assert state.exists()
    assert run(machine, "holdfast-coordinator.postrm", "purge").returncode == 0
    assert (state.exists(), agent.exists(), (machine / "etc/holdfast/agent.toml").exists()) == (False, True, True)
