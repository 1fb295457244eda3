"""python -m examples.demo [--keep] [--without-nginx]: exit 0 only if every step held."""

import argparse
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from examples.demo import keeping, story, world
from examples.demo.commands import CommandFailed
from examples.demo.gateway import find_nginx
from examples.demo.proof import NotProved
from examples.demo.screen import Screen
from examples.demo.world import World
from holdfast.client import HoldfastError

FAILED, INTERRUPTED = 1, 130
INTRODUCTION = """
A coordinator and three nodes run on this machine, each as a process of its own, with the commands that you would type
yourself. What is said to be proved has been looked at; the first claim that does not hold ends it with exit 1.
It takes about a minute."""


def main() -> int:
    arguments = _arguments()
    _when_told_to_end(_as_interrupt)
    screen = Screen()
    nginx = "" if arguments.without_nginx else find_nginx()
    if arguments.without_nginx:
        screen.say("Without nginx, as asked for: the example's Python service takes its place.")
    elif not nginx:
        screen.say("There is no nginx here; the example's Python service takes its place.")
        screen.say("How to have it: tools/system-packages demo")
    screen.say(INTRODUCTION)
    try:
        there = world.make(nginx, screen)
    except OSError as error:
        screen.say(f"There is no place for its files: {error}. TMPDIR=... names another.")
        return FAILED
    kept = False
    try:
        story.tell(there)
        _summary(there)
        kept = bool(arguments.keep)
    except (NotProved, CommandFailed, HoldfastError) as failed:
        _say_what_failed(there, failed)
        return FAILED
    except Exception as fault:  # noqa: BLE001 - the outermost edge: nothing that goes wrong counts as held
        _say_what_failed(there, fault)
        traceback.print_exception(fault)
        return FAILED
    except KeyboardInterrupt:
        _when_told_to_end(signal.SIG_IGN)  # a second Ctrl-C would leave something behind
        screen.say("\nStopped.")
        return INTERRUPTED
    finally:
        _when_told_to_end(signal.SIG_IGN)
        there.stream.end()
        if not kept:
            _clean_up(there)
    if kept:
        screen.say(keeping.keep(there, Path(sys.executable).parent))
    return 0


def _summary(there: World) -> None:
    """Each claim once more, under its step: all of them were looked at, or we would not be here."""
    proved = there.proof.claims
    there.screen.heading("What was proved")
    for step, claims in proved.items():
        there.screen.say(step)
        for claim in claims:
            there.screen.proved(claim)
    count = sum(map(len, proved.values()))
    there.screen.say(
        f"\nAll {len(story.STEPS)} steps held: {count} claims proved, none failed, in {there.screen.seconds:.0f} s."
    )


def _say_what_failed(there: World, failed: Exception) -> None:
    proof = there.proof
    there.screen.say(f"\nNOT PROVED, in step {proof.step}: {failed}")
    there.screen.say(f"{max(0, len(proof.claims) - 1)} of {len(story.STEPS)} steps held before it.")
    for name in there.processes.running:
        there.screen.say(f"\n--- the last words of {name}\n{there.processes.last_words(name, 5)}")


def _clean_up(there: World) -> None:
    there.processes.end()
    shutil.rmtree(there.folder, ignore_errors=True)


def _when_told_to_end(what: Callable[[int, FrameType | None], None] | signal.Handlers) -> None:
    """By Ctrl-C, by kill, by the terminal's being closed; Ctrl-C also where a shell has it ignored."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # nohup means it
            signal.signal(number, what)


def _as_interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="examples.demo", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave it running, and say how to look around")
    parser.add_argument("--without-nginx", action="store_true", help="use the example's Python service")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
