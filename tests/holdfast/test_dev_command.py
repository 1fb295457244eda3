"""`holdfast dev` and `holdfast.testing.Agent`: plain files at the local API."""

import json
import os
import subprocess
import sys
import urllib.parse

import pytest

from agent.development import plain_files
from agent.development.plain_files import PlainFileError
from holdfast.client import AgentDown, AgentRefused, Client, HoldfastError, NotFound
from holdfast.testing import Agent
from tests.citations import ROOT
from tests.world import programs

FILES = {
    "services/web/settings.json": {"workers": 4},
    "services/web/endpoints.json": [{"name": "http", "port": 80}],
    "routes.json": {"north": {"ttl_s": 60}},
    "qos_policy/policies.json": {"gold": {}},
}


@pytest.fixture(scope="module")
def agent():
    with Agent(FILES) as made:
        yield made


def holdfast(agent, *words):
    return programs.run("holdfast", *words, folder=ROOT, environment=agent.environment)


def test_plain_files_are_read_as_what_is_active(agent):
    client = agent.client()
    web = client.service("web")
    assert (web.settings, web.endpoints, web.workload) == ({"workers": 4}, [{"name": "http", "port": 80}], None)
    assert (client.routes().routes, client.route("north").value) == ({"north": {"ttl_s": 60}}, {"ttl_s": 60})
    assert client.get("qos_policy", "policies").value == {"gold": {}}
    assert list(client.services()) == ["web"]
    assert web.facts.grade == "fresh"
    with pytest.raises(NotFound):
        client.service("db")


def test_every_answer_says_development(agent):
    """Also refusals, and what no handler answers: nobody takes it for what is signed."""
    client = agent.client()
    for path in ("/v1/services/web", "/v1/routes", "/v1/status", "/v1/scopes", "/metrics", "/probe/readiness"):
        answer = client.request("GET", path)
        assert (answer.headers["holdfast-source"], answer.facts.source) == ("development", "development"), path
    for path in ("/v1/services/none", "/nowhere"):
        connection, response = client._ask("GET", path)
        assert response.headers["holdfast-source"] == "development"
        connection.close()
    assert client.request("GET", "/v1/status").value["cluster_id"] == "development"
    whole = json.loads(holdfast(agent, "get", "service", "web", "--json").out)
    assert (whole["source"], whole["value"]["settings"]) == ("development", {"workers": 4})


def test_the_status_is_as_an_agents(agent):
    done = holdfast(agent, "status")
    assert (done.status, "ACTIVE" in done.out.upper()) == (0, True), done.err
    assert agent.client().request("GET", "/probe/readiness").value["ready"] is True


def test_what_the_files_name_may_be_used_and_nothing_else(agent):
    client = agent.client()
    assert client.may("start_service", resource="web").allowed
    assert client.may("open_route", resource="north").allowed
    assert client.may("start_service", resource="db").reason == "not_in_policy"
    for method, path, body in (
        ("POST", "/v1/import", b"x"),
        (
            "POST",
            "/v1/trust/confirm",
            json.dumps({"root_key_ids": ["sha256:" + "0" * 64], "root_threshold": 1}).encode(),
        ),
    ):
        with pytest.raises(AgentRefused) as caught:
            client.request(method, path, body)
        assert (caught.value.status, caught.value.code) == (409, "development")


def test_changes_are_seen(agent):
    """By who reads, by who waits, and in the files."""
    client = agent.client()
    following = client.watch_service("web", wait_s=30)
    assert next(following).settings == {"workers": 4}
    before = client.service("web").facts
    agent.write("services/web/settings.json", {"workers": 8})
    assert next(following).settings == {"workers": 8}
    after = client.service("web").facts
    assert (after.version, after.generation > before.generation) == (before.version + 1, True)
    assert client.routes().facts.version == 1
    change = next(client.watch(after=before.generation, wait_s=30))
    assert (change.services, change.routes) == (("web",), ())
    with pytest.raises(HoldfastError, match="no JSON"):
        agent.write("services/web/settings.json", b"{")
    assert client.service("web").settings == {"workers": 8}
    agent.write("services/web/settings.json", {"workers": 4})
    assert next(following).settings == {"workers": 4}


def test_what_is_taken_away_goes(agent):
    client = agent.client()
    agent.write("services/db/settings.json", {})
    agent.write("routes.json", {"south": {}})
    assert set(client.services()) == {"web", "db"}
    assert list(client.routes().routes) == ["south"]
    agent.write("services/db/settings.json", None)
    agent.write("routes.json", FILES["routes.json"])
    assert list(client.services()) == ["web"]


def test_a_config_is_its_files(tmp_path):
    """Any bytes by socket and as files; every answer is marked; a change is waited for; what is no path is named."""
    large = os.urandom((1 << 20) + 5)
    files = {"config/edge/nginx.conf": b"\xff\x00", "config/edge/a/config/x": large, "config/none/.hidden": b"",
             "config/edge/up.json": {"a": 1}}  # fmt: skip
    with Agent(files) as made:
        client = made.client()
        following = client.watch_files("edge", wait_s=30)
        listed = next(following)
        assert list(listed.files) == ["a/config/x", "nginx.conf", "up.json"]
        found = [client.file("edge", path) for path in listed.files]
        assert found == [large, b"\xff\x00", b'{"a": 1}']
        assert {one.facts.source for one in (*found, listed)} == {"development"}
        assert client.files("none").files == {}
        projected = made.files / "config/edge"
        assert ((projected / "a/config/x").read_bytes(), (projected / "nginx.conf").read_bytes()) == (
            large,
            b"\xff\x00",
        )
        (made.folder / "config/edge/nginx.conf").chmod(0o755)
        made.write("config/edge/a/config/x", None)
        after = next(following)
        assert {path: file.mode for path, file in after.files.items()} == {"nginx.conf": "0755", "up.json": "0644"}
        assert (projected / "nginx.conf").stat().st_mode & 0o100
        assert client.file("edge", "up.json", known=found[2]).facts.version == 2
        with pytest.raises(HoldfastError, match="rename it"):
            made.write("config/edge/no path", b"")
        made.write("config/edge/no path", None)
        with pytest.raises(HoldfastError, match="is no id"):
            made.write("config/Edge/x", b"")


def test_the_files_are_laid_out_as_an_agents():
    with Agent(FILES) as made:
        folder = made.files
        assert json.loads((folder / "services/web/settings.json").read_bytes()) == {"workers": 4}
        assert json.loads((folder / "routes.json").read_bytes()) == {"north": {"ttl_s": 60}}
        assert json.loads((folder / "service_assignment@web/services.json").read_text())["web"]["settings"] == {
            "workers": 4
        }
        assert json.loads((folder / "index.json").read_text())["scopes"].keys() >= {"route_policy", "qos_policy"}
        scope = urllib.parse.quote("service_assignment/web", safe="")
        envelope = made.client().request("GET", f"/v1/scopes/{scope}").value["envelope"]
        assert (envelope["cluster_id"], envelope["config_version"]) == ("development", 1)
        client = made.client()
    with pytest.raises(AgentDown):
        client.status()


def test_the_environment_leads_there(agent, monkeypatch):
    for name in ("HOLDFAST_SOCKET", "HOLDFAST_FILES"):
        monkeypatch.setenv(name, agent.environment[name])
    assert Client().service("web").settings == {"workers": 4}


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("services/web/settings.json", b"{", "is no JSON"),
        ("services/web/settings.json", {"a": 2**60}, "cannot be signed"),
        ("services/WEB/settings.json", {}, "is no id"),
        ("routes.json", [], "must be an object"),
        ("qos_policy/policies.json", {"a": "x" * (2 << 20)}, "more than"),
    ],
)
def test_a_file_that_cannot_be_served_is_named(tmp_path, path, value, said):
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / path).write_bytes(value if isinstance(value, bytes) else json.dumps(value).encode())
    with pytest.raises(PlainFileError, match=said) as caught:
        plain_files.read(tmp_path)
    assert str(tmp_path / path) in str(caught.value)


@pytest.mark.parametrize("path", ["services/web/settings.json", "config/edge/nginx.conf"])
def test_a_pipe_is_named_and_not_waited_for(tmp_path, path):
    """Nobody writes to it: whoever opened it would hang, and a thread is ended by nothing."""
    (tmp_path / path).parent.mkdir(parents=True)
    os.mkfifo(tmp_path / path)
    with pytest.raises(PlainFileError, match="no regular file"):
        plain_files.read(tmp_path)
    (tmp_path / path).unlink()
    (tmp_path / path).write_text("{}")
    assert plain_files.read(tmp_path)


def test_an_agent_that_cannot_start_says_why():
    with pytest.raises(HoldfastError, match="is no JSON"), Agent({"routes.json": b"["}):
        pass


def test_other_files_are_passed_over(tmp_path):
    for path in (
        "README.md",
        "services/web/notes.txt",
        "services/web/.settings.json.swp",
        ".git/x.json",
        "No/Scope.json",
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("not JSON")
    assert plain_files.read(tmp_path) == {}


def test_it_tells_where_it_is_and_ends_when_it_is_told_to(tmp_path):
    run = [
        sys.executable,
        "-c",
        "from holdfast.node.command import main; main(prog_name='holdfast')",
        "dev",
        str(tmp_path),
    ]
    process = subprocess.Popen(run, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    first = process.stdout.readline()
    assert (
        first == f"export HOLDFAST_SOCKET={tmp_path}/.holdfast/agent.sock HOLDFAST_FILES={tmp_path}/.holdfast/active\n"
    )
    process.terminate()
    process.communicate(timeout=30)
    assert process.returncode == 0
    assert not (tmp_path / ".holdfast/agent.sock").exists()
