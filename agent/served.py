"""What is served of the store that was opened, and its tasks: loaded while the store is looked at (run.py)."""

from collections.abc import Awaitable, Callable

from agent.base.clock import Clock
from agent.base.threads import Threads
from agent.config.configuration import AgentSettings, ConfigurationError
from agent.enrolment.hold import HeldStore
from agent.enrolment.start import OpenedStore, make_node, open_store
from agent.local import local
from agent.local.local import Local
from agent.local.probes import ProbeListener
from agent.report.status import StatusKeeper
from agent.report.store_maintenance import Upkeep
from agent.state.node import RunningNode
from snapshot.frozen import frozen
from wire.systemd import SystemdNotifier


@frozen
class ServedNode:
    """`tasks`: each runs until it is cancelled."""

    node: RunningNode
    opened: OpenedStore
    local: Local
    tasks: tuple[Callable[[], Awaitable[None]], ...]


async def build(
    settings: AgentSettings,
    clock: Clock,
    threads: Threads,
    notifier: SystemdNotifier,
    held: HeldStore,
    socket_trouble: Callable[[], str],
) -> ServedNode:
    """StoreError; ConfigurationError."""
    opened = await threads.write(open_store, settings, held, clock.read())
    node = await threads.write(make_node, settings, clock, threads, opened)
    inside = _build(settings, node, opened, socket_trouble)
    tasks = (
        StatusKeeper(node, notifier).run,
        inside.publishing.run,
        inside.watching.run,
        inside.services.run,
        inside.probation.run,
        inside.log_missing_units,
        inside.front.decisions.run,
        inside.front.running.run,
        Upkeep(node, inside.publishing.published).run,
        ProbeListener(settings.local.probes_listen, inside.api).run,
    )
    return ServedNode(node, opened, inside, tasks)


def _build(settings: AgentSettings, node: RunningNode, opened: OpenedStore, socket_trouble: Callable[[], str]) -> Local:
    folder = opened.store.paths.temporary / "candidates"
    try:
        inside = local.build(settings, node, opened.views, folder, socket_trouble)
    except ValueError as error:
        raise ConfigurationError([str(error)]) from error
    inside.validators.start()
    return inside
