"""The socket at which local services ask: it is there before anything can be answered, so callers wait for the answer.

Apart from what answers (`local.py`), which takes its time to load.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import trio

from agent.access.access import group_id
from agent.config.configuration import LocalTable
from wire.self_healing_listener import SelfHealingListener
from wire.server import Server
from wire.systemd import passed_sockets
from wire.unix import passed_listener, unix_listener


@contextmanager
def listener(local: LocalTable) -> Iterator[SelfHealingListener]:
    """The socket that systemd passes, else one of our own. From here on callers wait, and are not refused."""
    passed = passed_sockets()
    if passed:
        yield passed_listener(next(iter(passed.values())))
        return
    group = group_id(local.socket_group) if local.socket_group else None
    where, named = local.socket_path, "[local] socket_path"
    with unix_listener(where, mode=local.socket_mode, group=group, setting=named) as made:
        yield made


async def serve(
    server: Server,
    listener: SelfHealingListener,
    stop: trio.Event,
    scope: trio.CancelScope,
    *,
    task_status: "trio.TaskStatus[None]" = trio.TASK_STATUS_IGNORED,
) -> None:
    """Once `stop` is set nobody new is let in, whoever has asked is answered, and then `scope` is cancelled."""
    async with trio.open_nursery() as nursery:
        await nursery.start(server.serve, listener)
        task_status.started()
        await stop.wait()
        server.stop()
    scope.cancel()


def socket_group(local: LocalTable) -> int:
    return group_id(local.socket_group) if local.socket_group else os.getegid()
