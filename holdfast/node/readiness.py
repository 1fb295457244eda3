"""`holdfast status --wait`: until the node, or one of its services, may run on its configuration (rules A11)."""

import time

from holdfast.client import AgentDown, Client
from holdfast.node.agent_options import NO, NOT_FOUND, fail
from holdfast.node.agent_status import read_status
from holdfast.node.explanations import service_text

EVERY_S = 0.5


def wait_until_ready(client: Client, service: str | None, wait_s: float) -> None:
    """Returns once it is; ends the command with the reason when it is not within `wait_s` seconds."""
    deadline = time.monotonic() + wait_s
    while (reason := _look_up(client, service)) is not None:
        if time.monotonic() >= deadline:
            fail(f"not ready after {wait_s:g} s: {reason}", NO)
        time.sleep(EVERY_S)


def _look_up(client: Client, service: str | None) -> str | None:
    """Why not; None: ready. An agent that is not there may still come."""
    try:
        status = read_status(client)
    except AgentDown as down:
        return str(down)
    if service is None or status.cause == "not_configured":
        return _in_words(status.fence)
    found = status.services.get(service)
    if found is None:
        known = ", ".join(sorted(status.services)) or "none"
        fail(f"agent.toml has no service {service}; it has: {known}", NOT_FOUND)
    return None if found.ready else _in_words(found.reason)


def _in_words(code: str | None) -> str | None:
    if code is None:
        return None
    text = service_text(code)
    return f"{code}: {text}" if text else code
