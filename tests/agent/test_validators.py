"""Validators: real commands over staged files, before anything becomes active."""

import shutil
import sys
import threading

import pytest

from agent.base.threads import Threads
from agent.services.judgements import ActivationAnswers, Judgements
from agent.services.validators import VALIDATOR_REFUSED, Validator, ValidatorCommand, Validators
from tests.agent.test_projection import scope


def answers() -> ActivationAnswers:
    """Of one activation, before which nobody was asked."""
    return ActivationAnswers(Judgements(lambda low, high: high))


LIST = "import os; print(sorted(os.path.join(d, f)[2:] for d, _, fs in os.walk('.') for f in fs))"


def validators(tmp_path, code: str, scopes=("route_policy/*",), timeout_s: float = 20.0) -> Validators:
    command = ValidatorCommand((sys.executable, "-c", code), timeout_s, tmp_path / "staged")
    made = Validators([Validator("web", tuple(scopes), command)], Threads())
    made.start()
    return made


CANDIDATE = scope("route_policy", {"routes": b'{"new":{}}'}, 2)
ACTIVE = [scope("route_policy", {"routes": b"{}"}), scope("qos_policy", {"policies": b"{}"})]


async def test_exit_zero_accepts(tmp_path):
    made = validators(tmp_path, "import json; assert json.load(open('route_policy/routes.json')) == {'new': {}}")
    assert await made.refusal([CANDIDATE], ACTIVE, 5, answers()) is None
    assert list((tmp_path / "staged").iterdir()) == []


async def test_a_candidate_is_written_and_taken_away_beside_the_event_loop(tmp_path, monkeypatch):
    """A Config has 10,000 files: to unlink them takes longer than anybody may wait for an answer."""
    accepted, where, rmtree = validators(tmp_path, "pass"), [], shutil.rmtree

    def noted(*arguments, **named):
        where.append(threading.get_ident())
        rmtree(*arguments, **named)

    monkeypatch.setattr(shutil, "rmtree", noted)
    assert await accepted.refusal([CANDIDATE], ACTIVE, 5, answers()) is None
    assert where
    assert threading.get_ident() not in where


@pytest.mark.parametrize(
    "code", ["raise SystemExit(1)", "raise SystemExit('no good\\n' * 9999)", "import os; os.abort()"]
)
async def test_anything_else_refuses_with_bounded_words(tmp_path, code):
    refused = await validators(tmp_path, code).refusal([CANDIDATE], ACTIVE, 5, answers())
    assert refused is not None
    assert (refused.service, refused.reason) == ("web", VALIDATOR_REFUSED)
    assert len(refused.detail) <= 256
    assert refused.detail.isprintable()
    assert list((tmp_path / "staged").iterdir()) == []
    assert await validators(tmp_path, "pass").refusal([CANDIDATE], ACTIVE, 5, answers()) is None


async def test_the_time_limit_refuses(tmp_path):
    refused = await validators(tmp_path, "import time; time.sleep(60)", timeout_s=0.5).refusal(
        [CANDIDATE], ACTIVE, 5, answers()
    )
    assert "did not end in time" in refused.detail


async def test_a_command_that_is_not_there_refuses(tmp_path):
    command = ValidatorCommand((str(tmp_path / "none"),), 5, tmp_path / "staged")
    made = Validators([Validator("web", ("*",), command)], Threads())
    made.start()
    assert "No such file" in (await made.refusal([CANDIDATE], ACTIVE, 5, answers())).detail


async def test_it_sees_all_its_scopes_as_they_would_be(tmp_path):
    code = LIST + "; raise SystemExit(1)"
    refused = await validators(tmp_path, code, ("route_policy/*", "qos_policy")).refusal(
        [CANDIDATE], ACTIVE, 5, answers()
    )
    assert "['index.json', 'qos_policy/policies.json', 'route_policy/routes.json', 'routes.json']" in refused.detail


async def test_who_is_not_concerned_is_not_asked(tmp_path):
    made = validators(tmp_path, "raise SystemExit(1)", ("qos_policy",))
    assert await made.refusal([CANDIDATE], ACTIVE, 5, answers()) is None


async def test_leftovers_of_a_crash_are_gone_at_the_start(tmp_path):
    (tmp_path / "staged/left/over").mkdir(parents=True)
    validators(tmp_path, "pass")
    assert list((tmp_path / "staged").iterdir()) == []
    assert (tmp_path / "staged").stat().st_mode & 0o777 == 0o700


async def test_a_candidate_that_cannot_be_laid_out_is_no_judgement(tmp_path):
    made = validators(tmp_path, "pass")
    (tmp_path / "staged").rmdir()
    refused = await made.refusal([CANDIDATE], ACTIVE, 5, answers())
    assert (refused.judged, "No such file" in refused.detail) == (False, True)
    (tmp_path / "staged").mkdir()
    assert await made.refusal([CANDIDATE], ACTIVE, 5, answers()) is None
