"""`holdfast exec`: a program with settings and secrets, which nobody else has."""

import gc
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.launch import rendered_file
from holdfast.launch.process_variables import NotVariablesError, variables
from holdfast.launch.rendered_file import NotPrivateError, write_private
from holdfast.launch.secret_references import UnresolvedError, resolve
from holdfast.launch.variables_file import NoVariablesFileError, read_variables
from holdfast.testing import Agent
from tests.citations import ROOT
from tests.holdfast.lab import arguments
from tests.world import programs

SECRET = "correct horse battery staple"
SETTINGS = {
    "LOG_LEVEL": "info",
    "WORKERS": 4,
    "VERBOSE": False,
    "UNSET": None,
    "LIMITS": {"open": [1, 2]},
    "DB_PASSWORD": {"secret_ref": "credential:db"},
}
SHOW = "import json, os, sys; print(json.dumps([dict(os.environ), sys.argv[1:]]))"


@pytest.fixture(scope="module")
def agent():
    with Agent({"services/web/settings.json": SETTINGS, "services/odd/settings.json": {"max-body": 1}}) as made:
        yield made


@pytest.fixture
def credentials(tmp_path):
    folder = tmp_path / "credentials"
    folder.mkdir()
    (folder / "db").write_text(f"{SECRET}\n")
    return folder


@pytest.fixture
def runtime():
    """A folder of this account's on a tmpfs, as RuntimeDirectory= gives it."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


def run(agent, *words, plainly=False, **more):
    """`holdfast exec words...` as a process. `plainly`: by an interpreter of its own."""
    environment = {**agent.environment, **{name: str(value) for name, value in more.items()}}
    for name in ("RUNTIME_DIRECTORY", "XDG_RUNTIME_DIR", "CREDENTIALS_DIRECTORY"):
        if name not in more:
            environment.pop(name, None)
    if plainly:
        command = arguments("exec", *words)
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    ran = programs.run("holdfast", "exec", *words, folder=Path.cwd(), environment=environment)
    return subprocess.CompletedProcess(words, ran.status, ran.out, ran.err)


def test_settings_and_secrets_are_variables_of_the_program(agent, credentials):
    done = run(
        agent,
        "--service",
        "web",
        "--",
        sys.executable,
        "-c",
        SHOW,
        "--service",
        "x y",
        CREDENTIALS_DIRECTORY=credentials,
    )
    assert done.returncode == 0, done.stderr
    environment, words = json.loads(done.stdout)
    expected = {
        "LOG_LEVEL": "info",
        "WORKERS": "4",
        "VERBOSE": "false",
        "LIMITS": '{"open":[1,2]}',
        "DB_PASSWORD": SECRET,
    }
    assert {name: environment.get(name) for name in expected} == expected
    assert "UNSET" not in environment
    assert words == ["--service", "x y"]
    assert done.stderr == ""


def test_what_the_unit_says_stays(agent, credentials):
    done = run(
        agent, "--service", "web", sys.executable, "-c", SHOW, LOG_LEVEL="debug", CREDENTIALS_DIRECTORY=credentials
    )
    assert json.loads(done.stdout)[0]["LOG_LEVEL"] == "debug"


def test_it_becomes_the_program(agent, credentials):
    """The same process, with the signals that a program starts with; its exit status is the service's."""
    status = "import os, signal, sys; print(os.getpid(), signal.getsignal(signal.SIGUSR1)); os.kill(os.getpid(), 9)"
    how = {"CREDENTIALS_DIRECTORY": credentials, "plainly": True}
    assert run(agent, "--service", "web", sys.executable, "-c", status, **how).returncode == -9
    ignored = run(agent, "--service", "web", "grep", "SigIgn", "/proc/self/status", **how)
    of_libc = 0b11 << 31  # 32 and 33 are its own: who starts programs by posix_spawn, as make does, leaves them ignored
    assert int(ignored.stdout.split()[1], 16) & ~of_libc == 0


def test_a_file_on_a_private_tmpfs(agent, credentials, runtime):
    done = run(
        agent, "--service", "web", "--file", "web.json", "--", sys.executable, "-c", SHOW,
        CREDENTIALS_DIRECTORY=credentials, RUNTIME_DIRECTORY=f"{runtime}:/run/other",
    )  # fmt: skip
    environment, _ = json.loads(done.stdout)
    path = Path(environment["HOLDFAST_CONFIG_FILE"])
    assert path == runtime / "web.json"
    assert json.loads(path.read_text()) == SETTINGS | {"DB_PASSWORD": SECRET}
    assert path.stat().st_mode & 0o777 == 0o600
    assert "DB_PASSWORD" not in environment
    assert [one.name for one in runtime.iterdir()] == ["web.json"]


def test_what_a_start_that_was_killed_has_left_keeps_no_other_out(runtime):
    """In a container every start has the same process id."""
    (runtime / f".web.json.{os.getpid()}").write_text("half of")
    path = write_private("web.json", b"{}", {"RUNTIME_DIRECTORY": str(runtime)})
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"{}", 0o600)
    assert [found.name for found in runtime.iterdir()] == ["web.json"]


def test_a_place_that_is_not_private_is_refused(agent, credentials, runtime, tmp_path, monkeypatch):
    """No secret reaches a disk, or a folder of others."""
    refused = run(agent, "--service", "web", "--file", "x", "true", CREDENTIALS_DIRECTORY=credentials)
    assert (refused.returncode, "RuntimeDirectory=" in refused.stderr) == (78, True)
    shared = runtime / "shared"
    shared.mkdir(mode=0o777)
    shared.chmod(0o777)
    with pytest.raises(NotPrivateError, match="alone"):
        write_private("x", b"", {"RUNTIME_DIRECTORY": str(shared)})
    monkeypatch.setattr(rendered_file, "IN_MEMORY", frozenset())
    with pytest.raises(NotPrivateError, match="no tmpfs"):
        write_private("x", b"", {"XDG_RUNTIME_DIR": str(runtime)})
    assert [one.name for one in runtime.iterdir()] == ["shared"]
    assert run(agent, "--service", "web", "--file", "../x", "true").returncode == 2


def test_a_secret_that_is_not_there_is_named_and_nothing_runs(agent, credentials, tmp_path):
    mark = tmp_path / "ran"
    without = run(agent, "--service", "web", "--", "touch", mark)
    assert (without.returncode, "LoadCredential=" in without.stderr) == (78, True)
    (credentials / "db").unlink()
    gone = run(agent, "--service", "web", "--", "touch", mark, CREDENTIALS_DIRECTORY=credentials)
    assert (gone.returncode, "credential:db" in gone.stderr) == (78, True)
    assert not mark.exists()


def test_no_error_has_a_value_in_it(agent, credentials):
    (credentials / "db").write_bytes(SECRET.encode() + b"\0")
    done = run(agent, "--service", "web", "--", "true", CREDENTIALS_DIRECTORY=credentials)
    assert (done.returncode, "DB_PASSWORD has a NUL" in done.stderr) == (78, True)
    (credentials / "db").write_bytes(SECRET.encode() + b"\xff")
    other = run(agent, "--service", "web", "--", "true", CREDENTIALS_DIRECTORY=credentials)
    assert (other.returncode, "no UTF-8" in other.stderr) == (78, True)
    for said in (done, other):
        assert SECRET not in said.stderr + said.stdout


def test_exit_statuses(agent, credentials):
    assert run(agent, "--service", "none", "true").returncode == 4
    assert run(agent, "--service", "web").returncode == 2
    assert run(agent, "--service", "odd", "true").returncode == 78
    given = {"CREDENTIALS_DIRECTORY": credentials}
    assert run(agent, "--service", "web", "/nonexistent/program", **given).returncode == 127
    assert run(agent, "--service", "web", str(ROOT), **given).returncode == 126
    assert run(agent, "--service", "web", "true", **given).returncode == 0
    assert run(agent, "--service", "web", "false", **given).returncode == 1


def test_from_the_files_when_the_agent_is_down(tmp_path, credentials):
    """A service restarts in an outage of its agent, too."""
    with Agent({"services/web/settings.json": SETTINGS}) as made:
        kept = tmp_path / "active"
        subprocess.run(["cp", "-rL", made.files, kept], check=True)
    more = {"HOLDFAST_FILES": kept, "HOLDFAST_SOCKET": tmp_path / "none", "CREDENTIALS_DIRECTORY": credentials}
    done = run(made, "--service", "web", "--", "printenv", "DB_PASSWORD", **more)
    assert (done.returncode, done.stdout) == (0, f"{SECRET}\n")
    assert "from its files, version 1, stale" in done.stderr
    assert SECRET not in done.stderr


# ---- files of a Config

APP = {"GREETING": "hello", "WORKERS": 4, "TOKEN": {"secret_ref": "credential:db"}}


@pytest.fixture(scope="module")
def configured():
    files = {
        "config/app/env.json": APP,
        "config/app/more/plain.env": b"# what it says\n\nA=1=2 3\nB=\n",
        "config/app/twice.json": b'{"A": "x", "A": "y"}',
        "services/web/settings.json": {"LOG_LEVEL": "info"},
        "services/same/settings.json": {"GREETING": "secret words"},
    }
    with Agent(files) as made:
        yield made


def test_what_a_configs_file_says_are_variables(configured, credentials):
    given = {"CREDENTIALS_DIRECTORY": credentials}
    done = run(configured, "--config", "app", "--service", "web", sys.executable, "-c", SHOW, **given)
    environment, _ = json.loads(done.stdout)
    wanted = {"GREETING": "hello", "WORKERS": "4", "TOKEN": SECRET, "LOG_LEVEL": "info"}
    assert {name: environment.get(name) for name in wanted} == wanted
    plain = run(configured, "--config", "app/more/plain.env", sys.executable, "-c", SHOW)
    environment, _ = json.loads(plain.stdout)
    assert (environment["A"], environment["B"]) == ("1=2 3", "")


def test_a_configs_file_on_a_private_tmpfs(configured, credentials, runtime):
    words = ("--config", "app", "--file", "app.json", "printenv", "HOLDFAST_CONFIG_FILE")
    done = run(configured, *words, CREDENTIALS_DIRECTORY=credentials, RUNTIME_DIRECTORY=runtime)
    assert json.loads(Path(done.stdout.strip()).read_text()) == APP | {"TOKEN": SECRET}


def test_a_configs_file_from_the_files_when_the_agent_is_down(tmp_path, credentials):
    with Agent({"config/app/env.json": APP}) as made:
        kept = tmp_path / "active"
        subprocess.run(["cp", "-rL", made.files, kept], check=True)
    more = {"HOLDFAST_FILES": kept, "HOLDFAST_SOCKET": tmp_path / "none", "CREDENTIALS_DIRECTORY": credentials}
    done = run(made, "--config", "app", "--", "printenv", "TOKEN", **more)
    assert (done.returncode, done.stdout) == (0, f"{SECRET}\n")
    assert "from its files, version 1, stale" in done.stderr


def test_refusals_name_the_variable_and_the_remedy_and_run_nothing(configured, tmp_path):
    mark = tmp_path / "ran"
    for words, status, said in (
        (("--config", "app"), 78, r"config app: TOKEN: credential:db: .*LoadCredential="),
        (("--config", "app/twice.json"), 78, r"A stands there twice"),
        (("--config", "app/none.json"), 4, r"no such file"),
        (("--config", "none"), 4, r"."),
        ((), 2, r"--config ID"),
        (("--config", "app", "--service", "web", "--file", "x"), 2, r"--file one of them"),
    ):
        done = run(configured, *words, "touch", mark)
        assert (done.returncode, bool(re.search(said, done.stderr))) == (status, True), done.stderr
    assert not mark.exists()


def test_a_name_in_both_is_refused(configured, credentials):
    words = ("--config", "app", "--service", "same", "true")
    done = run(configured, *words, CREDENTIALS_DIRECTORY=credentials)
    assert (done.returncode, "GREETING is a setting of the service as well" in done.stderr) == (78, True)
    assert "secret words" not in done.stderr


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("a.env", "SECRET words"),
        ("a.env", 'A="secret"'),
        ("a.env", "A=$secret"),
        ("a.env", "A= secret"),
        ("a.env", "A=secret\t"),
        ("a.env", "A=sec\\ret"),
        ("a.env", "export A=secret"),
        ("a.env", "A=secret\nA=secret"),
        ("env.json", '{"A": "secret"'),
        ("env.json", '{"A": "secret", "B": NaN}'),
        ("env.json", '{"A": "secret", "B": 12345678901234567890}'),
        ("env.json", '{"A": {"b": "secret", "b": 1}}'),
        ("env.json", "[" * 100_000),
    ],
)
def test_files_that_not_every_reader_takes_alike_are_refused_without_their_values(path, data):
    with pytest.raises(NoVariablesFileError) as caught:
        read_variables(path, data.encode())
    assert str(caught.value).startswith(f"{path}: ") and "secret" not in str(caught.value)
    with pytest.raises(NoVariablesFileError, match="UTF-8"):
        read_variables(path, b"A=\xff")


# ---- references


def reference(text):
    return {"secret_ref": text}


def test_references_are_replaced_wherever_they_stand(credentials):
    environment = {"CREDENTIALS_DIRECTORY": str(credentials)}
    value = {
        "a": [reference("credential:db"), 1],
        "b": {"secret_ref": "credential:db", "more": 1},
        "c": {"secret_ref": 1},
    }
    assert resolve(value, environment) == value | {"a": [SECRET, 1]}
    assert resolve("plain", environment) == "plain"
    with pytest.raises(UnresolvedError, match=r"^a\[1\]\.b: vault:x: nothing resolves"):
        resolve({"a": [1, {"b": reference("vault:x")}]}, environment)


@pytest.mark.parametrize(
    "text", ["credential:../db", "credential:..", "credential:", "credential:a/b", "vault:x", "x", "file:relative"]
)
def test_references_that_are_none(credentials, text):
    with pytest.raises(UnresolvedError, match=text.split(":")[0]):
        resolve(reference(text), {"CREDENTIALS_DIRECTORY": str(credentials)})


def test_a_file_must_be_its_readers_alone(tmp_path):
    path = tmp_path / "secret"
    path.write_text(SECRET)
    wrong = {0o644: "chmod", 0o604: "chmod", 0o620: "chmod", 0o602: "chmod"}
    for mode, remedy in wrong.items():
        path.chmod(mode)
        with pytest.raises(UnresolvedError, match=remedy):
            resolve(reference(f"file:{path}"), {})
    path.chmod(0o600)
    assert resolve(reference(f"file:{path}"), {}) == SECRET
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(UnresolvedError, match="file:"):
        resolve(reference(f"file:{tmp_path}/link"), {})
    with pytest.raises(UnresolvedError, match="regular"):
        resolve(reference(f"file:{tmp_path}"), {})
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(UnresolvedError, match="regular"):
        resolve(reference(f"file:{tmp_path}/pipe"), {})


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give files away")
def test_a_file_of_another_account_is_refused(tmp_path):
    path = tmp_path / "secret"
    path.write_text(SECRET)
    path.chmod(0o600)
    os.chown(path, 4400, 4400)
    with pytest.raises(UnresolvedError, match="belongs to uid 4400"):
        resolve(reference(f"file:{path}"), {})


# ---- variables


@pytest.mark.parametrize(
    "name",
    [
        *("LD_PRELOAD", "PATH", "BASH_ENV", "PYTHONPATH", "NODE_OPTIONS", "CREDENTIALS_DIRECTORY", "LISTEN_FDS"),
        *("NODE_PATH", "PERLLIB", "LUA_INIT", "LUA_INIT_5_4", "LUA_CPATH", "JDK_JAVA_OPTIONS", "CLASSPATH", "PHPRC"),
        *("PHP_INI_SCAN_DIR", "DOTNET_STARTUP_HOOKS", "CORECLR_PROFILER_PATH", "OPENSSL_CONF", "OPENSSL_MODULES"),
        *("ZDOTDIR", "GIT_SSH_COMMAND", "GEM_PATH", "BUNDLE_GEMFILE", "ERL_FLAGS", "HOLDFAST_SOCKET", "HOLDFAST_FILES"),
    ],
)
def test_settings_do_not_choose_the_program(name):
    with pytest.raises(NotVariablesError, match="decides what is run"):
        variables({name: "x"}, {})


@pytest.mark.parametrize("name", ["GIT_COMMIT", "LUA_VERSION", "BUNDLE_ID", "ERL_NODE", "OPENSSL_VERSION", "HOLDFAST"])
def test_names_like_these_are_settings_as_others(name):
    assert variables({name: "x"}, {}) == {name: "x"}


@pytest.mark.parametrize("value", [[], "x", None, {"a-b": 1}, {"": 1}, {"1A": 1}, {"A=B": 1}])
def test_what_is_no_variable_is_named(value):
    with pytest.raises(NotVariablesError, match="--file"):
        variables(value, {})


@pytest.fixture
def _no_garbage_collected() -> Iterator[None]:
    """Whatever another test has left would go at the deepest point, where none of its own words can be said."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("_no_garbage_collected")
@pytest.mark.parametrize("depth", [700, 900, 5000])
def test_what_is_nested_too_deep_is_an_error_with_words(depth):
    """Of a Config's file, which nobody has parsed before."""
    text = b'{"A":' + b"[" * depth + b"]" * depth + b"}"
    with pytest.raises((NoVariablesFileError, UnresolvedError), match="nested too deep"):
        resolve(read_variables("env.json", text), {})
