"""`holdfast join`: the token's way to the agent, and what is said of the outcome."""

import json
import os
import stat
import subprocess

import pytest
import trio

from holdfast.node.explanations import join_text
from tests.fakes.coordinator_server import TOKEN
from tests.fakes.watched import until_there
from tests.holdfast.lab import arguments, environment, holdfast
from wire.local.node_status import JoinTrouble

BARE = "header.claims.signature"


def put_token(file, token=TOKEN):
    file.touch(0o600)
    file.write_text(token)


@pytest.fixture
def config(tmp_path):
    """agent.toml of a node with a coordinator; its token file is not there yet."""
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    path = tmp_path / "agent.toml"
    path.write_text(f"""
[node]
cluster_id = "blue"
node_id = "node-1"
state_directory = "{state}"
[coordinator]
urls = ["https://coordinator.example:8443"]
ca_file = "{tmp_path}/ca.pem"
token_file = "{tmp_path}/join.token"
""")
    return path


async def joining(api, config, tmp_path, words, outcome, **more):
    """Runs the command; once the agent could find the token, `outcome` happens to it."""
    place, results = tmp_path / "join.token", []

    async def run():
        results.append(await holdfast("join", "--config", config, *words, at=api, **more))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        await until_there(place)
        kept = (place.read_text(), stat.S_IMODE(place.stat().st_mode), place.stat().st_uid)
        outcome()
    return results[0], kept


async def test_a_token_from_a_file_leads_to_membership(api, config, tmp_path):
    """rules A3: refused, it stays outside with the code; granted, it is a member."""
    api.state = "unenrolled"
    put_token(tmp_path / "given", f"  {TOKEN}\n")
    done, kept = await joining(
        api, config, tmp_path, ["--token-file", tmp_path / "given"], lambda: setattr(api, "state", "waiting")
    )
    assert (done.status, done.out) == (0, "joined: node-1 is a member of blue (waiting)\n")
    assert kept == (TOKEN + "\n", 0o600, os.geteuid())
    assert not (tmp_path / "join.token").exists()  # it is good for one join
    assert sorted(path.name for path in tmp_path.iterdir() if "token" in path.name) == []


async def test_membership_is_told_to_scripts(api, config, tmp_path):
    api.state = "unenrolled"
    put_token(tmp_path / "given", f"{TOKEN}\n")
    words = ["--json", "--token-file", tmp_path / "given"]
    done, _ = await joining(api, config, tmp_path, words, lambda: setattr(api, "state", "waiting"))
    about = {"node_id": "node-1", "cluster_id": "blue"}
    assert (done.status, json.loads(done.out)) == (0, {"outcome": "joined", "state": "waiting", **about})
    again = await holdfast("join", "--config", config, "--json", at=api)
    assert (again.status, json.loads(again.out)) == (0, {"outcome": "already_member", "state": "waiting", **about})


async def test_a_token_from_standard_input(api, config, tmp_path):
    api.state = "unenrolled"
    done, kept = await joining(
        api, config, tmp_path, ["--token-file", "-"], lambda: setattr(api, "state", "active"), stdin=TOKEN.encode()
    )
    assert (done.status, kept[0]) == (0, TOKEN + "\n")


async def test_a_token_from_the_credentials_directory(api, config, tmp_path):
    api.state = "unenrolled"
    credentials = tmp_path / "credentials"
    credentials.mkdir()
    put_token(credentials / "holdfast.join-token")
    process = await trio.lowlevel.open_process(
        arguments("join", "--config", config, "--wait", 20),
        env=environment(api.socket, api.files, CREDENTIALS_DIRECTORY=str(credentials)),
    )
    await until_there(tmp_path / "join.token")
    api.state = "active"
    assert await process.wait() == 0


async def test_a_token_that_lies_where_the_agent_looks(api, config, tmp_path):
    """rules K14: the configured file, without a word on standard input; it is left as it lies"""
    api.state = "unenrolled"
    put_token(tmp_path / "join.token")
    number = (tmp_path / "join.token").stat().st_ino
    over = await holdfast("join", "--config", config, "--wait", 0, at=api, stdin=b"")
    assert (over.status, "goes on trying" in over.err) == (1, True)
    assert f"the token is the one in {tmp_path}/join.token" in over.err
    assert "WARNING" not in over.err
    assert (tmp_path / "join.token").stat().st_ino == number
    process = await trio.lowlevel.open_process(
        arguments("join", "--config", config), env=environment(api.socket, api.files), stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )  # fmt: skip
    await process.stderr.receive_some()  # which token it takes: it has seen that this node is no member
    api.state = "active"
    assert await process.wait() == 0
    assert not (tmp_path / "join.token").exists()


async def test_with_pins_nothing_is_trusted_on_first_use(api, config, tmp_path):
    """threats D-19: and so nobody is warned of it"""
    api.state = "unenrolled"
    put_token(tmp_path / "join.token")
    config.write_text(f'{config.read_text()}[trust]\nroot_key_ids = ["sha256:{"ab" * 32}"]\n')
    over = await holdfast("join", "--config", config, "--wait", 0, at=api, stdin=b"")
    assert (over.status, "WARNING" in over.err) == (1, False)


async def test_a_token_that_the_environment_names(api, config, tmp_path):
    """rules K14: HOLDFAST_TOKEN_PATH, where agent.toml names no file"""
    api.state = "unenrolled"
    config.write_text(config.read_text().replace("token_file", "#"))
    put_token(tmp_path / "named")
    env = environment(api.socket, api.files, HOLDFAST_TOKEN_PATH=str(tmp_path / "named"))
    words = arguments("join", "--config", config, "--wait", 0)
    done = await trio.run_process(words, env=env, stdin=b"", check=False, capture_stderr=True)
    assert (done.returncode, b"goes on trying" in done.stderr) == (1, True)
    (tmp_path / "named").chmod(0o644)
    done = await trio.run_process(words, env=env, stdin=TOKEN.encode(), check=False, capture_stderr=True)
    assert (done.returncode, b"chmod 0600" in done.stderr) == (2, True)


async def test_standard_input_where_a_token_lies_is_asked_for(api, config, tmp_path):
    put_token(tmp_path / "join.token", "an.older.one")
    api.state = "joining"
    done = await holdfast("join", "--config", config, "--wait", 0, "--token-file", "-", at=api, stdin=TOKEN.encode())
    assert (done.status, (tmp_path / "join.token").read_text()) == (1, TOKEN + "\n")


def failure(code, *, refused=True):
    times = {"at": "2027-01-15T08:00:00Z", "again_at": "2027-01-15T08:01:00Z"}
    return JoinTrouble(code=code, detail="what was met", refused=refused, **times)


@pytest.mark.parametrize("code", ["token_used", "unauthorized_peer", "some_new_code"])
async def test_a_refusal_is_said_with_its_remedy(api, config, tmp_path, code):
    """rules J7."""
    api.state, api.counters["joins_failed"] = "unenrolled", 1  # an earlier refusal is not this one's
    api.join = failure("bad_token")

    def refuse():
        api.join = failure(code)
        api.counters["joins_failed"] = 2

    done, _ = await joining(api, config, tmp_path, ["--token-file", "-"], refuse, stdin=TOKEN.encode())
    assert (done.status, done.out) == (1, "")
    assert f"refused: {code}: what was met" in done.err
    assert join_text(code) in done.err
    assert TOKEN not in done.err


async def test_what_may_pass_is_said_and_waited_for(api, config, tmp_path):
    """rules K15: why it is not a member yet, once, with the remedy"""
    api.state = "joining"

    def fail():
        api.join = failure("tls_failed", refused=False)
        api.counters["joins_failed"] = 1

    done, _ = await joining(api, config, tmp_path, ["--token-file", "-", "--wait", 2], fail, stdin=TOKEN.encode())
    assert done.status == 1
    assert done.err.count("not yet: tls_failed: what was met: The handshake failed") == 1
    assert "goes on trying" in done.err


async def test_a_token_that_others_can_read_is_refused(api, config, tmp_path):
    """threats J12, D-61: also a link; it is not quoted, and not taken"""
    (tmp_path / "open").write_text(TOKEN)
    (tmp_path / "open").chmod(0o644)
    put_token(tmp_path / "closed")
    (tmp_path / "link").symlink_to(tmp_path / "closed")
    for name, why in (("open", "chmod 0600"), ("link", "symbolic link"), ("absent", "is not there")):
        api.state = "unenrolled"
        done = await holdfast("join", "--config", config, "--token-file", tmp_path / name, at=api)
        assert (done.status, why in done.err) == (2, True)
        assert TOKEN not in done.err
    assert not (tmp_path / "join.token").exists()


async def test_a_member_needs_no_token(api, config, tmp_path):
    done = await holdfast("join", "--config", config, "--token-file", "-", at=api, stdin=TOKEN.encode())
    assert done.status == 0
    assert "already (active)" in done.err
    assert not (tmp_path / "join.token").exists()


async def test_without_an_agent_the_token_waits_for_it(config, tmp_path):
    done = await holdfast("join", "--config", config, "--token-file", "-", stdin=TOKEN.encode())
    assert done.status == 3
    assert "systemctl start holdfast-agent" in done.err
    assert (tmp_path / "join.token").read_text() == TOKEN + "\n"


async def test_time_passes(api, config):
    api.state = "joining"
    done = await holdfast("join", "--config", config, "--wait", 0, "--token-file", "-", at=api, stdin=TOKEN.encode())
    assert done.status == 1
    assert "goes on trying" in done.err


@pytest.mark.parametrize("token", ["", " \n", "x" * 9000, "two\nlines", "b\x00d"])
async def test_what_is_no_token(api, config, tmp_path, token):
    api.state = "unenrolled"
    done = await holdfast("join", "--config", config, "--token-file", "-", at=api, stdin=token.encode())
    assert done.status == 2
    assert "no token in standard input" in done.err
    assert not (tmp_path / "join.token").exists()


async def test_a_configuration_that_is_not_right(api, tmp_path):
    done = await holdfast("join", "--config", tmp_path / "none.toml", at=api, stdin=b"")
    assert done.status == 2
    (tmp_path / "odd.toml").write_text("[nod]\n")
    done = await holdfast("join", "--config", tmp_path / "odd.toml", at=api, stdin=b"")
    assert done.status == 2
    assert "did you mean node?" in done.err


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give files away")
async def test_root_gives_the_agents_account_the_token_and_nothing_else(api, config, tmp_path):
    """What that account lays where the token goes, a link to root's file or a second name of it, is not given away."""
    api.state = "unenrolled"
    put_token(tmp_path / "given")
    victim = tmp_path / "shadow"
    victim.write_text("of root")
    os.chown(tmp_path / "state", 4001, 4002)
    config.write_text(config.read_text().replace(f"{tmp_path}/join.token", f"{tmp_path}/state/join.token"))
    place = tmp_path / "state/join.token"
    place.symlink_to(victim)
    refused = await holdfast("join", "--config", config, "--token-file", tmp_path / "given", at=api)
    assert (refused.status, "no plain file" in refused.err) == (2, True)
    assert (victim.read_text(), victim.stat().st_uid) == ("of root", 0)
    place.unlink()
    place.hardlink_to(victim)
    await holdfast("join", "--config", config, "--token-file", tmp_path / "given", "--wait", 0, at=api)
    assert (victim.read_text(), victim.stat().st_uid, victim.stat().st_nlink) == ("of root", 0, 1)
    assert (place.read_text(), place.stat().st_uid) == (TOKEN + "\n", 4001)


async def test_a_token_that_names_no_roots_is_refused(api, config, tmp_path):
    """threats D-19: nothing is kept; with the option it is, and what was said goes with it to the agent"""
    api.state = "unenrolled"
    words = ["--config", config, "--token-file", "-", "--wait", 0]
    done = await holdfast("join", *words, at=api, stdin=BARE.encode())
    assert (done.status, "roots_not_pinned" in done.err, "--trust-on-first-use" in done.err) == (1, True, True)
    assert not (tmp_path / "join.token").exists()
    done = await holdfast("join", "--trust-on-first-use", *words, at=api, stdin=BARE.encode())
    assert "holdfast trust confirm" in done.err
    assert (tmp_path / "join.token").read_text() == f"{BARE}\ntrust-on-first-use\n"


@pytest.mark.parametrize("trust", ["trust_on_first_use = true", f'root_key_ids = ["sha256:{"a" * 64}"]'])
async def test_agent_toml_may_say_whose_roots_they_are(api, config, tmp_path, trust):
    """threats D-19"""
    api.state = "unenrolled"
    config.write_text(f"{config.read_text()}[trust]\n{trust}\n")
    done = await holdfast("join", "--config", config, "--wait", 0, "--token-file", "-", at=api, stdin=BARE.encode())
    assert (tmp_path / "join.token").read_text() == f"{BARE}\n"
    assert ("WARNING" in done.err) == ("first_use" in trust)


async def test_a_join_file_is_no_first_use(api, config, tmp_path):
    done = await holdfast("join", tmp_path / "file", "--trust-on-first-use", "--config", config, at=api)
    assert (done.status, "a join file names the root keys" in done.err) == (2, True)
