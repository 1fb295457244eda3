"""The agent's process: what is started, in which order, and what ends it (rules A10, A12, A14).

The one nursery of the agent is in `serve`. A task that fails is logged, counted and started again: nothing that
happens upstream ends the process, or takes an active scope away.
"""

import importlib
import os
import random
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import trio

from agent.awaited import Awaited, settings_without_a_node
from agent.base import gc_tuning
from agent.base.clock import Clock, SystemClock
from agent.base.generation import following
from agent.base.threads import Threads
from agent.config.configuration import AgentSettings, ConfigurationError, load
from agent.enrolment.hold import HeldStore, hold_store
from agent.local import listening
from store.base.errors import StoreError
from wire.backoff import BackOff
from wire.logs import last_words, log, set_up_logging
from wire.systemd import SystemdNotifier, give_back_sockets
from wire.unix import SocketError

if TYPE_CHECKING:
    from agent.state.node import RunningNode

RESTART_MOST_S = 60.0
EXIT_CONFIGURATION, EXIT_STORE = 78, 74  # sysexits(3): EX_CONFIG, EX_IOERR


async def serve(
    settings: AgentSettings,
    *,
    clock: Clock | None = None,
    threads: Threads | None = None,
    notifier: SystemdNotifier | None = None,
    stop: trio.Event | None = None,
    task_status: "trio.TaskStatus[RunningNode]" = trio.TASK_STATUS_IGNORED,
) -> None:
    """Until cancelled, or until `stop` is set and whoever has asked is answered.

    StoreError, SocketError and ConfigurationError before anything is served; nothing later.
    """
    clock, threads, notifier = clock or SystemClock(), threads or Threads(), notifier or SystemdNotifier()
    stop = trio.Event() if stop is None else stop
    with gc_tuning.responsive(), listening.listener(settings.local) as listener:
        held = await _hold_and_load(settings, clock, threads)
        from agent import served  # noqa: PLC0415 - loaded above

        try:
            inside = await served.build(settings, clock, threads, notifier, held, lambda: listener.trouble)
            node, local = inside.node, inside.local
            with following(held.store.watch, local.active):
                async with AsyncExitStack() as at_the_end, trio.open_nursery() as nursery:
                    await nursery.start(listening.serve, local.server, listener, stop, nursery.cancel_scope)
                    notifier.ready()
                    task_status.started(node)
                    nursery.start_soon(notifier.watchdog)
                    for task in inside.tasks:
                        nursery.start_soon(_keep_up, node, task)

                    # It costs what the first answer did not wait for; nor do those that come meanwhile.
                    await threads.read(importlib.import_module, "agent.upstream")
                    from agent import upstream  # noqa: PLC0415 - loaded above

                    gc_tuning.keep_what_is_loaded()
                    outside = upstream.build(node, inside.opened, local)
                    at_the_end.push_async_callback(outside.aclose)
                    for task in outside.tasks:
                        nursery.start_soon(_keep_up, node, task)
                    nursery.start_soon(_wake_on_hangup, outside.wake, local.publishing.wake)
        finally:
            if stop.is_set():
                await _note_stop(threads, held)
            held.close()


async def _hold_and_load(settings: AgentSettings, clock: Clock, threads: Threads) -> HeldStore:
    """The store; and beside the look that a child process takes at it, the modules that serve what is in it are loaded.
    Neither is given up halfway. StoreError, as itself and not in a group.
    """
    found: HeldStore | StoreError | None = None
    with trio.CancelScope(shield=True):
        async with trio.open_nursery() as beside:
            beside.start_soon(threads.read, importlib.import_module, "agent.served")
            try:
                found = await threads.write(hold_store, settings, clock.read().wall)
            except StoreError as error:
                found = error
    if isinstance(found, HeldStore):
        return found
    assert found is not None  # noqa: S101 - either has come
    raise found


async def _note_stop(threads: Threads, held: HeldStore) -> None:
    """An end in order, for what is on probation; where the store refuses, it counts as one that was none."""
    with trio.CancelScope(shield=True), suppress(StoreError):
        await threads.write(held.store.note_stop)


async def _keep_up(node: "RunningNode", task: Callable[[], Awaitable[None]]) -> None:
    """The outermost edge of a task: it is started again after whatever it did not expect. What fails again and again is
    started less and less often, since what it does first may be a request that a whole fleet makes.
    """
    name = getattr(getattr(task, "func", task), "__qualname__", "")
    back_off = BackOff(random.uniform, cap_s=RESTART_MOST_S)
    while True:
        started = trio.current_time()
        try:
            await task()
        except Exception:
            node.counters.add("task_faults")
            log.exception("task failed", task=name)
            if trio.current_time() - started > RESTART_MOST_S:
                back_off.note_success()
            await trio.sleep(back_off.note_failure())
        else:
            return


async def _wake_on_hangup(*wakes: Callable[[], None]) -> None:
    """SIGHUP is a hint that it is worth asking now, and trying what has failed (rules P14)."""
    with trio.open_signal_receiver(signal.SIGHUP) as received:
        async for _ in received:
            for wake in wakes:
                wake()


async def _until_told_to_stop(serving: Callable[..., Awaitable[None]], notifier: SystemdNotifier) -> None:
    """The first signal lets callers be answered; a second one does not wait for that."""
    stop = trio.Event()
    async with trio.open_nursery() as nursery:
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as received:
            nursery.start_soon(_serve_and_end, partial(serving, stop=stop), nursery.cancel_scope)
            async for number in received:
                log.info("stopping", signal=signal.Signals(number).name)
                notifier.stopping()
                if stop.is_set():
                    break
                stop.set()
            nursery.cancel_scope.cancel()


async def _serve_and_end(serving: Callable[[], Awaitable[None]], scope: trio.CancelScope) -> None:
    await serving()
    scope.cancel()


def run(path: Path, *, is_check: bool) -> None:
    """Until it is told to end; a start that fails ends the process with words and a status of sysexits(3)."""
    notifier = SystemdNotifier()
    try:
        nobody = settings_without_a_node(path)
        settings = nobody or load(path)
        awaited = Awaited(path)
    except ConfigurationError as error:
        _end("\n".join(error.problems), EXIT_CONFIGURATION)
    if is_check:
        _check(settings)
    set_up_logging(settings.log.level)
    serving = partial(_serve_nobody, awaited=awaited) if nobody else serve
    serving = partial(serving, settings, notifier=notifier)
    # What `except*` raises, Python 3.11.2 (Debian 12) wraps into a group, whose trace would hide the words.
    ended: list[tuple[str, int]] = []
    try:
        trio.run(_until_told_to_stop, serving, notifier, strict_exception_groups=True)
    except* ConfigurationError as errors:
        ended.append((_words(errors), EXIT_CONFIGURATION))
    except* (StoreError, SocketError) as errors:
        ended.append((_words(errors), EXIT_STORE))
    if ended:
        _end(*ended[0])
    if awaited.named:
        _become_a_nodes()


async def _serve_nobody(
    settings: AgentSettings, *, awaited: Awaited, notifier: SystemdNotifier, stop: trio.Event
) -> None:
    from agent import unconfigured  # noqa: PLC0415 - of no use to an agent that is configured

    await unconfigured.serve(settings, awaited=awaited, notifier=notifier, stop=stop)


def _check(settings: AgentSettings) -> NoReturn:
    from agent.local import local  # noqa: PLC0415 - as in `serve`, which loads it beside other work

    missing = trio.run(local.find_missing, settings, strict_exception_groups=True)
    if missing:
        _end("\n".join(missing), EXIT_CONFIGURATION)
    sys.exit()


def _become_a_nodes() -> None:
    """The same program with the same arguments, in the same process: systemd's socket goes with it."""
    log.info("the configuration names a node now")
    give_back_sockets()
    os.execv(sys.executable, sys.orig_argv)  # noqa: S606 - what it was started with


def _words(errors: BaseExceptionGroup[BaseException]) -> str:
    found: list[str] = []
    for error in errors.exceptions:
        found.append(_words(error) if isinstance(error, BaseExceptionGroup) else str(error))
    return "\n".join(found)


def _end(words: str, code: int) -> None:
    last_words(f"holdfast-agent: {words}")
    raise SystemExit(code)
