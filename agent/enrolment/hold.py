"""The store taken hold of at a start: lock, file modes, a look at all of it (rules A10, L25, L30). Synchronous.

Apart from what is made of it (`start.py`), so that this can begin before most of the agent is loaded: a child process
looks at the file meanwhile, and waiting for it was a fifth of a start.
"""

from agent.config.configuration import AgentSettings
from snapshot.frozen import frozen
from store.base.layout import Root
from store.store import Store
from wire.logs import log


@frozen
class HeldStore:
    """`close` lets go."""

    root: Root
    store: Store

    def close(self) -> None:
        self.store.close()
        self.root.close()


def hold_store(settings: AgentSettings, now: float) -> HeldStore:
    """StoreError: bad_permissions, store_locked, store_format_newer end the process (rules A14)."""
    node = settings.node
    root = Root.open(node.state_directory)
    try:
        store = Store.open(root, node.cluster_id, now=now, map_bytes=settings.limits.map_bytes)
    except BaseException:
        root.close()
        raise
    log.info("store opened", install_id=root.install_id, incarnation=store.incarnation)
    for finding in store.findings:
        log.warning("met at start", event_kind=finding.happened, scope=finding.scope, detail=finding.detail)
    return HeldStore(root, store)
