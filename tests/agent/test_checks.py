"""What a service is asked on probation: an answer within its time, whatever it does (rules S67)."""

import re
import socket
from pathlib import Path

import pytest
import trio

from agent.base.threads import Threads
from agent.config.check_address import FORM, CheckAddress, read_address
from agent.services.checks import CommandCheck, HttpCheck, UnitCheck
from agent.services.unit_states import UnitState

SHORT_S, WITHIN_S = 0.5, 120.0


def shell(script, timeout_s=SHORT_S):
    return CommandCheck(("/bin/sh", "-c", script), timeout_s)


# ---- commands


async def test_a_command_that_ends_well_says_yes():
    answer = await shell('test "$HOLDFAST_SERVICE" = web && test -z "$HOME"', 10).ask("web")
    assert (answer.ok, answer.detail) == (True, "exit 0")


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo it is broken; exit 3", "exit 3: it is broken"),
        ("kill -9 $$", "ended by SIGKILL"),
        ("nothing-here", "exit 127"),
    ],
)
async def test_whatever_else_it_does_says_no(script, words):
    answer = await shell(script, 10).ask("web")
    assert not answer.ok
    assert answer.detail.startswith(words)


async def test_a_command_that_is_not_there_says_no():
    answer = await CommandCheck(("/nowhere/at/all",), 10).ask("web")
    assert (answer.ok, answer.detail) == (False, "did not run: /nowhere/at/all: No such file or directory")


@pytest.mark.parametrize("script", ["sleep 600", "yes", "trap '' TERM; while :; do sleep 1; done"])
async def test_one_that_does_not_end_says_no_in_time(script):
    """It hangs, prints without end, or puts up with being told to go"""
    with trio.fail_after(WITHIN_S):
        answer = await shell(script).ask("web")
    assert not answer.ok
    assert answer.detail.startswith("did not end in time")
    assert len(answer.detail) <= 256


async def test_what_it_leaves_behind_is_taken_away(tmp_path):
    """It forks, and what it forked holds its output open: neither keeps the answer, nor stays."""
    left = tmp_path / "left"
    forked = f"sh -c 'echo $$ >{left}; exec sleep 600' & (while :; do sleep 600; done) &"
    with trio.fail_after(WITHIN_S):
        answer = await shell(f"{forked} until test -s {left}; do sleep 0.01; done", 2 * WITHIN_S).ask("web")
        assert answer.ok
        while is_running(int(left.read_text())):  # noqa: ASYNC110 - another process ends
            await trio.sleep(0.05)


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(") ")[1][0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def test_a_secret_that_it_says_goes_nowhere():
    """threats D-55"""
    answer = await shell("echo 'password=hunter2'; exit 1", 10).ask("web")
    assert "hunter2" not in answer.detail


# ---- HTTP


async def answering(listening, words, task_status=trio.TASK_STATUS_IGNORED):
    async def answer(stream):
        await stream.receive_some(4096)
        if words is None:
            await trio.sleep_forever()
        await stream.send_all(words)
        await stream.aclose()

    await trio.serve_listeners(answer, [trio.SocketListener(listening)], task_status=task_status)


ANSWERS = [
    (b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", True),
    (b"HTTP/1.1 204 No Content\r\n\r\n", True),
    (b"HTTP/1.0 200 OK\r\n\r\nwell", True),
    (b"HTTP/1.1 200 OK\r\ncontent-length: 9999999999\r\n\r\nx", True),  # its body is no matter
    (b"HTTP/1.1 304 Not Modified\r\n\r\n", False),
    (b"HTTP/1.1 301 Moved\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n", False),
    (b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 4\r\n\r\nbusy", False),
    (b"SSH-2.0-OpenSSH_9.2\r\n", False),
    (b"", False),
    (None, False),
]


@pytest.mark.parametrize(("words", "ok"), ANSWERS)
@pytest.mark.parametrize("over", ["unix", "tcp"])
async def test_an_address_says_yes_with_200_to_299(tmp_path, words, ok, over):
    if over == "unix":
        listening = trio.socket.socket(trio.socket.AF_UNIX)
        await listening.bind(str(tmp_path / "s"))
        address = f"unix:{tmp_path / 's'}:/health?full=1"
    else:
        listening = trio.socket.socket()
        await listening.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{listening.getsockname()[1]}/health"
    listening.listen()
    async with trio.open_nursery() as nursery:
        await nursery.start(answering, listening, words)
        deadline_s = SHORT_S if words is None else 2 * WITHIN_S
        with trio.fail_after(WITHIN_S):
            answer = await HttpCheck(read_address(address), deadline_s, Threads()).ask("web")
        nursery.cancel_scope.cancel()
    assert answer.ok is ok
    assert answer.detail.startswith(address)


async def test_nobody_there_says_no(tmp_path):
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        nowhere = f"http://127.0.0.1:{held.getsockname()[1]}/"
        for address in (nowhere, f"unix:{tmp_path / 'none'}:/"):
            answer = await HttpCheck(read_address(address), 5, Threads()).ask("web")
            assert not answer.ok
            assert "connect_failed" in answer.detail


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("unix:/run/web.sock:/health", CheckAddress("/health", Path("/run/web.sock"))),
        ("http://127.0.0.1:8080/health?x=1", CheckAddress("/health?x=1", host="127.0.0.1", port=8080)),
        ("http://127.9.9.9:1", CheckAddress("/", host="127.9.9.9", port=1)),
        ("http://[::1]:80/", CheckAddress("/", host="::1", port=80)),
    ],
)
def test_where_it_may_be(text, expected):
    assert read_address(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("", 5, None, "unix:relative:/health", "unix:/run/web.sock", "unix:/a b:/", "unix:/a:/x\r\nHost: evil"),
        *("http://10.0.0.1:80/", "http://localhost:80/", "http://example.org:80/", "http://127.0.0.1/health"),
        *("https://127.0.0.1:80/", "http://user@127.0.0.1:80/", "http://127.0.0.1:80/#x", "http://127.0.0.1:80/\r\nx"),
        *("http://127.0.0.1:99999/", "http://0.0.0.0:80/", "http://[fe80::1%25eth0]:80/", "127.0.0.1:80/health"),
    ],
)
def test_nothing_but_this_machine_is_asked(text):
    """threats D-47: no name, which somebody could point elsewhere, and no address of another machine"""
    with pytest.raises(ValueError, match=re.escape(f"must be {FORM}")):
        read_address(text)


def test_an_address_is_shown_as_it_is_written():
    for text in ("unix:/run/web.sock:/health", "http://127.0.0.1:8080/health", "http://[::1]:80/"):
        assert str(read_address(text)) == text


# ---- units

RUNS, DOWN, DEAD = UnitState(True, for_s=900.0), UnitState(False), UnitState(False, failed=True)


async def asked(states, last=None, *, resumed=False):
    """What becomes of a unit that is so at the beginning, and so at each question."""
    queue = list(states)

    async def read(_):
        return queue.pop(0)

    check = UnitCheck("web.service", read, lambda _: last)
    await check.begin(resumed=resumed)
    return [await check.ask("web") for _ in range(len(queue))]


@pytest.mark.parametrize(
    ("states", "last", "words"),
    [
        ((RUNS, RUNS), None, ""),
        ((RUNS, DOWN), None, "web.service is not active any more"),
        ((RUNS, DEAD), None, "web.service has failed"),
        ((RUNS, UnitState(True, restarts=1)), None, "web.service was restarted by systemd 1 times"),
        ((UnitState(True, 900.0, restarts=4), UnitState(True, 9.0, restarts=4)), None, ""),
        ((UnitState(True, 900.0, restarts=4), UnitState(True, 1.0)), None, ""),  # a person has restarted it
        ((DOWN, DOWN), DOWN, ""),  # it does not run, and did not
        ((DEAD, DEAD), DEAD, ""),
        ((DOWN, RUNS, DOWN), DOWN, "web.service is not active any more"),
        ((DEAD, DEAD), RUNS, "web.service has failed"),  # it watches, and died before it was told
        ((UnitState(True, 0.1, restarts=1), UnitState(True, 1.0, restarts=1)), RUNS, "web.service was restarted"),
        ((RUNS, UnitState(False, fault="systemctl does not say")), None, ""),
    ],
)
async def test_a_unit_is_active_and_was_not_restarted(states, last, words):
    answers = await asked(states, last)
    assert all(answer.ok for answer in answers[:-1])
    assert (answers[-1].ok, answers[-1].detail.startswith(words)) == (not words, True)


async def test_after_a_start_of_the_agent_a_failed_unit_is_one_that_failed():
    """How it was before is known to nobody any more."""
    assert not (await asked((DEAD, DEAD), DEAD, resumed=True))[0].ok
    assert (await asked((DOWN, DOWN), RUNS, resumed=True))[0].ok
