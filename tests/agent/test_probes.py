"""The probes' own listener: a port that is taken costs nothing else, and is had when it is free."""

import random
import socket
from functools import partial
from itertools import pairwise

import trio
import trio.testing

from agent.local.probes import CAP_S, FLOOR_S, ProbeListener
from tests.fakes.ports import held_port
from tests.logs import capture_logs
from wire.backoff import BackOff


class Answers:
    """An API of which nothing is asked here."""

    def probe_routes(self) -> list:
        return []


def most(_low: float, high: float) -> float:
    return high


async def test_a_taken_port_is_said_once_tried_with_a_floor_and_a_cap_and_had_when_it_is_free(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """rules J46, A14"""
    tries: list[float] = []

    class Counted(BackOff):
        def note_failure(self, retry_after_s: float | None = None) -> float:
            tries.append(trio.current_time())
            return super().note_failure(retry_after_s)

    taken = held_port()
    taken.listen()
    port = taken.getsockname()[1]
    probes = ProbeListener(f"127.0.0.1:{port}", Answers(), Counted(most, 5.0, CAP_S))
    with capture_logs() as logs:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(probes.run)
            await trio.sleep(3600)
            assert len(tries) < 20
            assert all(later - former >= FLOOR_S for former, later in pairwise(tries))
            (said,) = [each for each in logs if each["event"] == "no probes"]
            assert f"127.0.0.1:{port}" in said["remedy"] and "[local] probes_listen" in said["remedy"]
            taken.close()
            await trio.sleep(CAP_S + FLOOR_S + 1)
            with socket.create_connection(("127.0.0.1", port), timeout=60):
                assert logs[-1]["event"] == "probes are served"
            nursery.cancel_scope.cancel()


async def test_it_is_never_asked_faster_than_its_floor() -> None:
    """Whatever chance draws."""
    back_off = BackOff(partial(random.Random(1).uniform), 5.0, CAP_S)
    assert all(back_off.note_failure(FLOOR_S) >= FLOOR_S for _ in range(1000))


async def test_without_an_address_there_is_nothing_to_serve() -> None:
    await ProbeListener(None, Answers()).run()


async def test_a_name_that_others_lead_here_is_not_answered() -> None:
    """threats U12: on the loopback, a web page whose DNS changes its mind"""
    async with trio.open_nursery() as nursery:
        with held_port() as held:  # so that nobody else comes to listen there
            port = held.getsockname()[1]
            nursery.start_soon(ProbeListener(f"127.0.0.1:{port}", Answers()).run)
            assert await status_for(port, "evil.example") == 421
            for host in ("127.0.0.1", "localhost", "[::1]"):
                assert await status_for(port, f"{host}:{port}") == 404, "no route is made here, and it is looked for"
        nursery.cancel_scope.cancel()


async def status_for(port: int, host: str) -> int:
    with trio.fail_after(60):
        while True:
            try:
                stream = await trio.open_tcp_stream("127.0.0.1", port)
                break
            except OSError:
                await trio.lowlevel.checkpoint()
        async with stream:
            await stream.send_all(f"GET /metrics HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n".encode())
            return int((await stream.receive_some(4096)).split()[1])
