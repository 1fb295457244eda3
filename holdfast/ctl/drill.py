"""`holdfastctl drill outage`: what nodes would do without a coordinator, before it happens."""

from collections.abc import Iterator
from pathlib import Path

import click

from coordinator.declared.resources import InvalidResources
from holdfast.ctl import output
from holdfast.ctl.apply import FILES_HELP, read
from holdfast.ctl.socket import REFUSED, CoordinatorClient, Failed, asks_the_coordinator
from holdfast.terminal import durations
from holdfast.terminal.clock import wall_clock
from holdfast.terminal.durations import in_words
from holdfast.terminal.shown import say
from snapshot.outage import Stop
from wire.operators.fleet_answers import NodeOutage, OutageDrill

MOST_NAMES = 4


def read_span(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """Of an option: `72h`, in seconds."""
    try:
        return None if value is None else durations.read(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.group()
def drill() -> None:
    """Foresee what happens, by the code that decides it then; nothing is changed."""


@drill.command()
@click.argument("lasts_s", metavar="SPAN", callback=read_span)
@click.argument("node_ids", metavar="[NODE]...", nargs=-1)
@click.option("--restart-at", "restart_s", metavar="SPAN", callback=read_span,
              help="Each node is restarted so long after the beginning, as after a power cut.")  # fmt: skip
@click.option("-f", "--files", "places", type=click.Path(path_type=Path, exists=True), multiple=True,
              help=f"By these files alone, as if published now; no coordinator is asked. {FILES_HELP}")  # fmt: skip
@asks_the_coordinator
def outage(
    asked: CoordinatorClient, lasts_s: int, node_ids: tuple[str, ...], restart_s: int | None, places: tuple[Path, ...]
) -> None:
    """What each NODE stops, when and why, in an outage of SPAN (72h, 3d, 90min) that begins now.

    By what is published for the members, with the expiry that it has; with -f by files, for every Node in them.
    """
    from coordinator.declared.foresight import LONGEST_S  # noqa: PLC0415 - the readers of YAML: --help does not wait for them

    if not 1 <= lasts_s <= LONGEST_S:
        raise click.UsageError(f"an outage of 1s to {LONGEST_S // 86_400}d can be foreseen")
    if places:
        answer = _by_files(places, lasts_s, restart_s, node_ids)
    else:
        answer = asked.get(OutageDrill, "drill", "outage", lasts_s=lasts_s, restart_s=restart_s, node=node_ids)
    asked.show(answer, _render)


def _by_files(places: tuple[Path, ...], lasts_s: int, restart_s: int | None, node_ids: tuple[str, ...]) -> OutageDrill:
    from coordinator.base.settings import CoordinatorSettings  # noqa: PLC0415 - as above
    from coordinator.declared import foresight, resources  # noqa: PLC0415 - as above
    from coordinator.declared.model import Model  # noqa: PLC0415 - as above
    from coordinator.fleet import drill as drills  # noqa: PLC0415 - as above
    from snapshot.outage import Outage  # noqa: PLC0415 - as above

    try:
        declared = resources.read(read(places))
        found = {key: entry.resource for key, entry in declared.items()}
        cluster_id = foresight.cluster_id_of(found.values())
        resources.check(declared, {}, cluster_id)
        span = Outage(int(wall_clock()), lasts_s, restart_s)
        nodes = drills.rehearse_declared(Model(cluster_id, found), span, node_ids, CoordinatorSettings())
    except InvalidResources as invalid:
        first = f"{invalid.code}: {len(invalid.problems)} problems"
        raise Failed(first, REFUSED, code=invalid.code, more=invalid.problems) from None
    return OutageDrill(span.began, span.lasts_s, span.restart_s, tuple(nodes))


def _render(answer: OutageDrill) -> None:
    restart = "" if answer.restart_s is None else f", restarted after {in_words(answer.restart_s)}"
    say(f"an outage of {in_words(answer.lasts_s)} that begins now{restart}")
    rows = [(node.node_id, *line) for node in answer.nodes for line in _lines(node)]
    output.table(("node", "after", "what happens", "why"), rows, nothing="no node is known")
    fenced = [node for node in answer.nodes if any(state.mode == "fenced" for state in node.states)]
    count = f"{len(fenced)} of {len(answer.nodes)}"
    say(f"fenced before its end, where nothing goes on: {count if fenced else 'no node'}")


def _lines(node: NodeOutage) -> Iterator[tuple[str, str, str]]:
    """After how long, what, why: in the order of time, one line for all that ends at one moment for one reason."""
    told: dict[tuple[int, int, str], list[str]] = {}
    mode = "normal"
    for state in node.states:
        if state.mode != mode:
            told[state.after_s, 0, state.cause] = [state.mode.upper()]
        mode = state.mode
    for stop in node.stops:
        told.setdefault((stop.after_s, 1, stop.reason), []).append(_stop(stop))
    for after_s, order, why in sorted(told):
        what = told[after_s, order, why]
        yield _after(after_s), what[0] if order == 0 else f"no {', no '.join(what)}", why


def _after(seconds: int) -> str:
    return in_words(seconds) if seconds else "at once"


def _stop(stop: Stop) -> str:
    names = stop.names
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return stop.what + (f" ({', '.join(names[:MOST_NAMES])}{more})" if names else "")
