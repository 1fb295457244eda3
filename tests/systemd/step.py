"""A step of the test: a function, for all machines at once or for each node; its name is what is printed."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from tests.systemd.lab import Lab, Node


class StepFailed(Exception):
    """`node` is None where the step is not one node's."""

    def __init__(self, step: str, node: Node | None, cause: BaseException) -> None:
        super().__init__(f"{step}: {cause}")
        self.node = node
        self.cause = cause


@dataclass(frozen=True)
class Once:
    """For the whole of the lab."""

    act: Callable[[Lab], None]

    def run(self, lab: Lab) -> Iterator[str]:
        """Its times, in words."""
        began = time.monotonic()
        try:
            self.act(lab)
        except Exception as error:
            raise StepFailed(name_of(self), None, error) from error
        yield f"{time.monotonic() - began:5.1f} s"


@dataclass(frozen=True)
class Each:
    """For every node, at the same time."""

    act: Callable[[Lab, Node], None]

    def run(self, lab: Lab) -> Iterator[str]:
        with ThreadPoolExecutor(len(lab.nodes)) as pool:
            begun = {pool.submit(self._timed, lab, node): node for node in lab.nodes}
            try:
                wait(begun, return_when=FIRST_EXCEPTION)
            except BaseException:  # a signal: the pool waits for its threads, and they for their machines
                lab.end()
                raise
            for done, node in begun.items():
                yield f"debian {node.debian} {self._time_of(done, node):5.1f} s"

    def _timed(self, lab: Lab, node: Node) -> float:
        began = time.monotonic()
        self.act(lab, node)
        return time.monotonic() - began

    def _time_of(self, done: Future[float], node: Node) -> float:
        try:
            return done.result()
        except Exception as error:
            raise StepFailed(name_of(self), node, error) from error


Step = Once | Each


def name_of(step: Step) -> str:
    return step.act.__name__.replace("_", " ")


def check(holds: object, what: str) -> None:
    """An assertion that says what it saw, also under -O."""
    if not holds:
        raise AssertionError(what)
