"""What a coordinator leaves in cycles, where the old are never visited: whether its memory stays flat.

    .venv/bin/python -m benchmarks.coordinator_memory [--rounds 200] [--every 20] [--hasty]

In each round a state is declared, one that cannot be read is refused, the fleet is listed, and four nodes open a
connection, have a poll held and give up; strangers say what nobody understands. As the daemon has it
(coordinator/base/interpreter.py), what is young is visited and what is old is not. After each tenth of the rounds: what
the process takes. At the end everything is visited once, and what nobody reaches is counted by its type: that is what
would have leaked. `--hasty`: what is young is called old a hundred times sooner, as if each round took hours.

Those who ask are in the same process, so what they leave is counted as well.
"""

import argparse
import gc
import tempfile
from collections import Counter
from contextlib import suppress
from pathlib import Path

import trio

from benchmarks.figures import note
from coordinator.base import interpreter
from coordinator.base.interpreter import NEVER, resident_bytes
from snapshot import envelope
from snapshot.container import ChunkParts
from snapshot.identifiers import HEAD
from tests.coordinator.daemon import Running, TlsNode, running
from tests.coordinator.founding import Founded
from wire.client import ClientError

STATE = """
{{kind: Organization, id: acme}}
---
{{kind: Node, id: n0, spec: {{roles: [core_mesh], organizations: [acme], addresses: ["10.0.0.{number}:7000"]}}}}
"""
GARBAGE = (b"nonsense\r\n\r\n", b"\x16\x03\x01\x00\x05abc")
NODES, MOST_SHOWN = 4, 12


async def do_round(at: Running, nodes: list[TlsNode], number: int) -> None:
    await at.apply(STATE.format(number=number % 250))
    with suppress(ClientError):
        await at.apply("{kind: Nonsense")
    await at.ask("GET", "/v1/nodes")
    async with trio.open_nursery() as polling:
        for node in nodes:
            polling.start_soon(follow, node)
        await at.polls_held(len(nodes))
        polling.cancel_scope.cancel()
    for node in nodes:
        await node.client.aclose()
    while at.daemon.coordinator.board.waiting:  # those who have left are noticed  # noqa: ASYNC110
        await trio.sleep(0.001)
    for port, said in zip((at.ports.fleet, at.ports.join), GARBAGE, strict=True):
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            await stream.send_all(said)


async def follow(node: TlsNode) -> None:
    """Asks for the next head again and again; for the newest one the poll is held."""
    epoch = generation = 0
    while True:
        answer = await node.head(generation, epoch, wait=30)
        if answer.status == 200:
            said = envelope.parse(ChunkParts([answer.body]).opening().envelope, HEAD)
            epoch, generation = said.authority_epoch, said.config_version


async def measure(folder: Path, rounds: int, every: int, *, hasty: bool) -> None:
    async with running(Founded(folder, f"sqlite:///{folder}/state.db")) as at:
        await at.apply(STATE.format(number=0))
        nodes = [await at.admit(f"n{number}") for number in range(NODES)]
        interpreter.set_up()
        if hasty:
            gc.set_threshold(100, NEVER, NEVER)
        taken = []
        for number in range(rounds):
            if number % every == 0:
                taken.append(resident_bytes() / 1024)
                print(f"after {number} rounds: {taken[-1]:.0f} KiB")
            await do_round(at, nodes, number)
        gc.collect(0)
        gc.set_debug(gc.DEBUG_SAVEALL)
        found = gc.collect()
        gc.set_debug(0)
        kinds = Counter(type(each).__qualname__ for each in gc.garbage)
        gc.garbage.clear()
        print(f"old, and nobody reaches it: {found} objects, {found / rounds:.1f} a round")
        print(", ".join(f"{count} {kind}" for kind, count in kinds.most_common(MOST_SHOWN)))
        note("memory/of a coordinator that visits the young alone", "KiB", taken)
        note("memory/old objects that nobody reaches, a round", "objects", [found / rounds])


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=200)
    options.add_argument("--every", type=int, default=20)
    options.add_argument("--hasty", action="store_true")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        trio.run(lambda: measure(Path(folder), chosen.rounds, chosen.every, hasty=chosen.hasty))


if __name__ == "__main__":
    main()
