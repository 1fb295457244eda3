"""The agent's status as the commands read it: in form, one message for all of them."""

from collections.abc import Mapping

from holdfast.client import AgentRefused, Client
from holdfast.terminal.shown import show_value
from wire.local.node_status import NodeStatus
from wire.messages import BadMessageError

OK = 200


def read_status(client: Client) -> NodeStatus:
    """Every text in it such that a terminal obeys none. AgentDown; AgentRefused as `parse_status`."""
    return parse_status(show_value(client.status()))


def parse_status(answered: Mapping[str, object]) -> NodeStatus:
    """AgentRefused where the answer is out of form, as that of another release may be."""
    try:
        return NodeStatus.from_value(answered)
    except BadMessageError as error:
        remedy = "systemctl restart holdfast-agent, if it is of another release; else see holdfast status --json"
        raise AgentRefused("bad_answer", f"the agent's status is out of form: {error}: {remedy}", OK) from error
