"""Logs: one JSON object a line, at the level that was asked for, with no variable of any frame in them."""

import json
import os
import re
import subprocess
import sys

import pytest

from tests.citations import ROOT
from tests.logs import unchanged_logging
from wire.logs import log, set_up_logging


@pytest.fixture
def logging(capsys):
    """`logging(level)` sets it up; what was logged comes back, parsed."""

    def lines():
        return [json.loads(line) for line in capsys.readouterr().err.splitlines()]

    def set_up(level):
        set_up_logging(level)
        return lines

    with unchanged_logging():
        yield set_up


def test_one_json_object_a_line(logging):
    lines = logging("info")
    log.debug("not this")
    log.warning("document refused", scope="qos_policy", reason="bad_signature", version=7)
    (line,) = lines()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", line.pop("timestamp"))
    assert line == {
        "event": "document refused", "level": "warning", "scope": "qos_policy", "reason": "bad_signature", "version": 7,
    }  # fmt: skip


def test_the_journal_is_told_the_priority_of_a_line():
    """As a service of systemd has it: stderr is the stream that JOURNAL_STREAM names; another one has no prefix"""
    code = "import wire.logs as logs; logs.set_up_logging('info'); log = logs.log"
    says = f"{code}; log.info('state', before=None); log.warning('document refused', version=7)"
    says += r"; logs.last_words('agent: wrong\ntoo')"
    for named, prefixes in ((True, ["<6>", "<4>"]), (False, ["", ""])):
        reader, writer = os.pipe()
        there = os.fstat(writer)
        stream = f"{there.st_dev}:{there.st_ino if named else there.st_ino + 1}"
        command = [sys.executable, "-c", says]
        subprocess.run(command, env={**os.environ, "JOURNAL_STREAM": stream}, stderr=writer, cwd=ROOT, check=True)
        os.close(writer)
        with os.fdopen(reader) as said:
            *lines, why, more = said.read().splitlines()
        assert [why, more] == (["<3>agent: wrong", "<3>too"] if named else ["agent: wrong", "too"])
        assert [line[: line.index("{")] for line in lines] == prefixes
        assert [line[line.index("{") :].startswith('{"event": ') for line in lines] == [True, True]


def test_an_exception_is_told_without_the_variables_of_its_frames(logging):
    """threats D-55: a frame's variables may hold anything"""
    lines = logging("error")

    def fail(secret):
        raise ValueError("what went wrong")

    try:
        fail("swordfish")
    except ValueError:
        log.exception("task failed", task="t")
    (line,) = lines()
    assert "what went wrong" in line["exception"]
    assert "swordfish" not in line["exception"].replace('fail("swordfish")', "")
