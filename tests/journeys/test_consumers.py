"""examples/consumers: programs that know nothing of Holdfast, or a little, through the whole life of their files."""

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from examples.demo.processes import Processes
from tests.holdfast.operator_lab import UNGUARDED, Lab
from tests.journeys.consumer_programs import CONSUMERS, PROMETHEUS, Consumer, Machine
from tests.journeys.gateway import FABRIC, WITHIN_S, Gateway
from tests.world.pauses import pauses


@pytest.fixture
def settings() -> str:
    """Each program's checker is to refuse: a guarded change ends with the first of them."""
    return UNGUARDED


@pytest.fixture
def machine(lab: Lab, gateway: Gateway, tmp_path: Path) -> Iterator[Machine]:
    (tmp_path / "programs").mkdir()
    made = Machine(gateway, Processes(tmp_path / "programs"))
    try:
        yield made
    finally:
        made.end()


def test_programs_live_by_what_is_declared(lab: Lab, machine: Machine) -> None:
    """rules S53, S67: a change, a mistake, an outage with new starts of everything, and the end of it"""
    gateway = machine.gateway
    declare(lab, machine, "first")
    machine.configure(CONSUMERS)
    gateway.join(8081)
    until(machine, lambda: all(is_laid_out(machine, consumer) for consumer in CONSUMERS))
    for consumer in CONSUMERS:
        machine.start(consumer)
    all_show(machine, "first")

    declare(lab, machine, "second")
    all_show(machine, "second")

    declare(lab, machine, "third", mistaken=True)
    for consumer in CONSUMERS:
        is_refused(machine, consumer)
    all_show(machine, "second")

    declare(lab, machine, "fourth")
    all_show(machine, "fourth")

    lab.stop()
    gateway.kill()
    all_show(machine, "fourth")
    for consumer in CONSUMERS:  # from the files that the agent left
        machine.restart(consumer)
    all_show(machine, "fourth")
    gateway.start()
    for consumer in CONSUMERS:
        machine.restart(consumer)
    all_show(machine, "fourth")

    lab.start()
    withdraw(lab)
    until(machine, lambda: not any(is_laid_out(machine, consumer) for consumer in CONSUMERS), hinted=True)
    for consumer in CONSUMERS:
        shows(machine, consumer, consumer.left.format("fourth"))
    if PROMETHEUS:
        told = gateway.status["services"]["prometheus"]
        assert not told["answer_ok"], "its reload has nothing to read"


@pytest.mark.skipif(not PROMETHEUS, reason="NO PROMETHEUS: apt-get install prometheus curl")
def test_prometheus_was_among_them() -> None:
    """Where it is not there, the others live without it, and this says so"""
    assert "prometheus" in [consumer.name for consumer in CONSUMERS]


def declare(lab: Lab, machine: Machine, edition: str, *, mistaken: bool = False) -> None:
    folder = lab.folder / "declared"
    folder.mkdir(exist_ok=True)
    (folder / "fabric.yaml").write_text(FABRIC.format(port=8081))
    for consumer in CONSUMERS:
        place = f"declared/{consumer.scope.partition('/')[2]}.yaml"
        text = consumer.file(place).replace("first edition", f"{edition} edition")
        if mistaken:
            assert consumer.mistake[0] in text
            text = text.replace(*consumer.mistake)
        (folder / Path(place).name).write_text(machine.here(text))
    lab.good("apply", "-f", folder, "--yes")


def withdraw(lab: Lab) -> None:
    folder = lab.folder / "declared"
    for consumer in CONSUMERS:
        (folder / f"{consumer.scope.partition('/')[2]}.yaml").unlink()
    lab.good("apply", "-f", folder, "--prune", "--yes")


def is_laid_out(machine: Machine, consumer: Consumer) -> bool:
    return (machine.run / "active" / consumer.scope).exists()


def all_show(machine: Machine, edition: str) -> None:
    for consumer in CONSUMERS:
        shows(machine, consumer, consumer.wanted.format(edition))


def is_refused(machine: Machine, consumer: Consumer) -> None:
    """By the program's own checker, whose words reach whoever asks."""

    def explained() -> str:
        return machine.gateway.ask("explain", consumer.scope).out

    until(machine, lambda: consumer.words in explained(), explained)
    rejected = machine.gateway.status["scopes"][consumer.scope]["last_rejected"]
    assert rejected["reason"] == "validator_refused", rejected


def shows(machine: Machine, consumer: Consumer, wanted: str) -> None:
    said: list[str] = []

    def is_shown() -> bool:
        said.append(consumer.shows(machine))
        return said[-1] == wanted

    until(machine, is_shown, lambda: f"{consumer.name} {said[-1:]} {machine.processes.last_words(consumer.name)}")


def until(machine: Machine, holds: Callable[[], bool], said: Callable[[], str] = str, *, hinted: bool = False) -> None:
    end, pause = time.monotonic() + WITHIN_S, pauses(0.1, 1.0)
    while True:
        machine.do_what_root_does(CONSUMERS)
        if holds():
            return
        assert time.monotonic() < end, (said(), machine.gateway.log())
        if hinted:
            machine.gateway.process.send_signal(signal.SIGHUP)
        time.sleep(next(pause))  # programs of others look at their files, and start, in their own time
