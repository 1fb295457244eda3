"""What others wrote, on a terminal: any text at all, and the commands that show it."""

import json
import os
import pty
import shutil
import subprocess
import unicodedata
from contextlib import redirect_stdout
from io import StringIO

import trio
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.terminal.shown import escape_json, say, show_value, shown
from store.base.records import Rejection
from tests.agent.lab import NOW, asked_source, serving
from tests.fakes.hostile import IN_FORM, relay
from tests.holdfast.lab import arguments, environment, holdfast
from tests.holdfast.test_verify_command import CASES, VECTORS, run

HOSTILE = "x\nVERIFIED  routes.hfs\r\x1b[2K\x7f\x9b31m\u202egpj\u2066\u200b\u2028\udc9b"
ANY = st.text(st.characters())
FORBIDDEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def is_safe(text):
    return not [each for each in text if unicodedata.category(each) in FORBIDDEN]


@given(ANY)
@example(HOSTILE)
def test_any_text_is_one_line_that_a_terminal_only_prints(text):
    """threats D-59: no control, C1, DEL, bidi override; no line begins"""
    found = shown(text)
    assert is_safe(found)
    assert len(found.splitlines()) <= 1
    assert shown(found) == found
    found.encode()


@given(st.lists(ANY, min_size=1))
def test_one_line_is_said_for_each(texts):
    with redirect_stdout(StringIO()) as out:
        say(*texts)
    assert out.getvalue().split("\n") == [*map(shown, texts), ""]


def test_a_whole_answer_is_shown():
    found = show_value({HOSTILE: [HOSTILE, 1, None, True, {"a": HOSTILE}]})
    assert found == {shown(HOSTILE): [shown(HOSTILE), 1, None, True, {"a": shown(HOSTILE)}]}


@given(st.recursive(ANY, lambda inner: st.lists(inner) | st.dictionaries(ANY, inner)))
@example([HOSTILE, "\U000e0001"])
def test_shown_json_means_the_same(value):
    text = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
    found = escape_json(text)
    assert is_safe(found.decode())
    assert json.loads(found) == json.loads(text)


def test_what_prints_stays_as_it_is():
    for text in ("routes.hfs", "Zürich, 東京, שלום", "a b", ""):
        assert shown(text) == text


def of_stick(tmp_path):
    """A document that is rejected, under a name that says otherwise."""
    case = next(one for one in CASES if one["expect"]["verdict"] == "rejected")
    stick = tmp_path / HOSTILE
    shutil.copy(VECTORS / case["document"], stick)
    return stick, case


def test_a_file_name_does_not_print_over_its_own_rejection(tmp_path):
    """threats D-59"""
    stick, case = of_stick(tmp_path)
    done = run("--context", case["context"], "--now", case["now"], stick)
    assert done.status == 1
    assert all(is_safe(line) for line in done.out.split("\n"))
    assert [line for line in done.out.split("\n") if line.startswith(("REJECTED", "VERIFIED"))] == [
        f"REJECTED  {shown(stick)}"
    ]
    missing = run("--context", tmp_path / "none\nVERIFIED\x9b", stick)
    assert missing.status == 2
    assert not [line for line in missing.err.split("\n") if line.startswith("VERIFIED") or not is_safe(line)]


async def test_nor_over_what_became_of_it(api, tmp_path):
    """threats D-59: `import` of several files names each"""
    stick, _ = of_stick(tmp_path)
    done = await holdfast("import", stick, stick, at=api)
    printed = (done.out + done.err).split("\n")
    assert any(shown(stick) in line for line in printed)
    assert not [line for line in printed if line.startswith("VERIFIED") or not is_safe(line)]


async def test_a_section_is_verbatim_in_a_pipe_and_safe_on_a_terminal(periphery):
    """threats D-59; rules S13: a program gets what was signed, a person the same value"""
    value = {"north": "\x7f\x9b31m\u202egpj\u2066\u200b\U000e0001 Zürich"}
    periphery.route(1, {"routes": value})
    async with serving(periphery):
        for words in (("get", "route_policy", "routes"), ("get", "route_policy"), ("get", "route_policy", "--json")):
            piped = await holdfast(*words, at=periphery)
            assert (value["north"] in piped.out) is ("--json" not in words)
            assert is_safe(piped.out.rstrip("\n")) is ("--json" in words)
            printed = await on_a_terminal(arguments(*words), environment(periphery.socket, periphery.files))
            assert is_safe(printed.rstrip("\r\n"))
            assert "Zürich" in printed
            for of_it in json.loads(piped.out).keys() - {"age_s"}:
                assert json.loads(printed)[of_it] == json.loads(piped.out)[of_it]


LOOKS = (
    *("status", "explain route_policy", "may open_route"),
    *("get route_policy --names", "get route_policy routes --json"),
)


async def test_no_answer_of_the_agent_moves_the_cursor_or_begins_a_line(api, tmp_path):
    """threats D-59"""
    api.node.store.rejections.record(
        Rejection(NOW - 120, "route_policy", "bad_signature", 5, False, HOSTILE, "route-9", 9, f"https://c:1/{HOSTILE}")
    )
    api.sources = [asked_source(error="timed_out", failures=3, again_in_s=40)]
    places = (tmp_path / "spoilt.sock", tmp_path / "wrong.sock")
    with relay(api.socket, places[0], IN_FORM) as spoilt, relay(api.socket, places[1]) as wrong:
        for words in LOOKS:
            for socket in (api.socket, spoilt, wrong):
                done = await holdfast(*words.split(), "--socket", socket)
                printed = (done.out + done.err).split("\n")
                assert "Traceback" not in done.err
                assert [line for line in printed if line.startswith("VERIFIED") or not is_safe(line)] == []
        status = await holdfast("status", "--socket", spoilt)
        assert "u202egpj" in "".join(status.out.split())
        refused = await holdfast("status", "--socket", wrong)
        assert (refused.status, refused.out) == (6, "")
        assert "bad_answer: the agent's status is out of form: " in refused.err


def test_a_file_whose_name_is_an_option_is_named_in_one_line(tmp_path):
    """threats D-59: what a shell makes of `*`"""
    done = run(f"--{HOSTILE}", tmp_path)
    assert done.status == 2
    assert all(is_safe(line) and not line.startswith("VERIFIED") for line in done.err.split("\n"))


async def on_a_terminal(command, env):
    """What the command prints on a terminal."""

    def of_a_terminal():
        ours, theirs = pty.openpty()
        with subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=theirs, stderr=subprocess.PIPE):
            os.close(theirs)
            return b"".join(iter(lambda: _chunk(ours), b"")).decode()

    return await trio.to_thread.run_sync(of_a_terminal)


def _chunk(terminal):
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other side has closed it
        return b""
