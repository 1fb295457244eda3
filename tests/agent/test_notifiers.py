"""How services are told: files for root's units, commands, nothing."""

import sys
from pathlib import Path

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from agent.services.notifiers import NOT_RUNNING, Command, NotifierWatch, RequestedVerb, Verb
from agent.services.services import Notified


def requested(folder: Path, unit: str = "nginx.service", timeout_s: float = 60.0, **more: object) -> RequestedVerb:
    return RequestedVerb(
        more.pop("verb", Verb.RELOAD), unit, folder / "reload", folder / "holdfast-reload", timeout_s, **more
    )


async def unit_answers(notifier: RequestedVerb, words: str, task_status=trio.TASK_STATUS_IGNORED) -> None:
    """As holdfast-reload@.path and .service do: wait for the request, write what came of it."""
    task_status.started()
    await wait_all_tasks_blocked()  # the request is there, and its writer waits
    assert notifier.request.exists()
    notifier.answer.parent.mkdir(exist_ok=True)
    notifier.answer.write_text(f"{words}\n")


@pytest.mark.parametrize(("words", "ok"), [("success 0", True), ("exit-code 1", False), ("timeout", False)])
async def test_a_unit_is_reloaded_through_a_file(tmp_path, words, ok):
    """protocol.md 4: what a service answered is recorded."""
    notifier = requested(tmp_path)
    async with trio.open_nursery() as nursery:
        await nursery.start(unit_answers, notifier, words)
        told = await notifier.tell("web", 7)
    assert (told.ok, told.detail) == (ok, words)
    assert (tmp_path / "reload/nginx.service").read_text() == "reload 7\n"


async def test_a_unit_that_does_not_run_was_not_told(tmp_path):
    """Not ok, with a word of its own; and taken as told once it runs."""
    notifier = requested(tmp_path)
    for words, ok, begin in (("not_running", False, NOT_RUNNING), ("success 0", True, "success")):
        async with trio.open_nursery() as nursery:
            await nursery.start(unit_answers, notifier, words)
            told = await notifier.tell("web", 7)
        assert (told.ok, told.detail.startswith(begin)) == (ok, True)
        assert Notified(7, {}, told.ok, told.detail, 0).outcome == ("done" if ok else NOT_RUNNING)


async def test_an_old_answer_is_not_taken_for_a_new_one(tmp_path):
    notifier = requested(tmp_path, timeout_s=0.3)
    notifier.answers.mkdir()
    (notifier.answers / "nginx.service").write_text("success 0\n")
    told = await notifier.tell("web", 8)
    assert not told.ok
    assert "systemctl enable --now holdfast-reload@nginx.service.path" in told.detail


@pytest.mark.parametrize(("verb", "word"), [(Verb.SIGNAL, "USR1"), (Verb.RESTART, "restart 3")])
async def test_the_other_verbs_have_folders_of_their_own(tmp_path, verb, word):
    """A request for a signal must not reload."""
    notifier = requested(tmp_path, verb=verb, signal="USR1")
    async with trio.open_nursery() as nursery:
        await nursery.start(unit_answers, notifier, "success 0")
        assert (await notifier.tell("db", 3)).ok
    assert (tmp_path / verb / "nginx.service").read_text() == f"{word}\n"
    assert (tmp_path / f"holdfast-{verb}" / "nginx.service").exists()
    assert not (tmp_path / "reload").exists()


async def test_a_folder_that_may_not_be_written_is_said(tmp_path):
    (tmp_path / "reload").write_text("no folder")
    told = await requested(tmp_path).tell("web", 1)
    assert (told.ok, "reload" in told.detail) == (False, True)


@pytest.mark.parametrize("unit", ["../etc/passwd", "a/b.service", "", "a b", "..", "a..b", ".hidden/..", "x" * 300])
def test_a_name_that_is_none_of_a_unit(tmp_path, unit):
    with pytest.raises(ValueError, match="no name"):
        requested(tmp_path, unit=unit)


async def test_a_command_is_told_whom_and_what():
    code = "import os; print(os.environ['HOLDFAST_SERVICE'], os.environ['HOLDFAST_GENERATION'])"
    told = await Command((sys.executable, "-c", code), 20).tell("web", 9)
    assert (told.ok, told.detail) == (True, "exit 0: web 9")
    assert not (await Command((sys.executable, "-c", "raise SystemExit(1)"), 20).tell("web", 9)).ok


async def test_who_watches_needs_no_telling():
    assert (await NotifierWatch().tell("web", 1)).ok
