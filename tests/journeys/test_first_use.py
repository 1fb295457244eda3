"""What `holdfastctl trust show` says of the root keys is what a node compares, with both daemons (threats D-19)."""

import shlex

from tests.holdfast.operator_lab import Lab
from tests.journeys.gateway import Gateway, declare


def test_the_line_that_the_coordinator_shows_is_what_a_node_holds(lab: Lab, gateway: Gateway) -> None:
    """The token has named them already; a node of a first use is confirmed by the same line"""
    declare(lab, 8081)
    gateway.join(8081)
    roots = gateway.status["roots"]
    assert (roots["trusted_by"], roots["confirmed"]) == ("join token", True)
    (line,) = (each for each in lab.good("trust", "show").out.splitlines() if "holdfast trust confirm" in each)
    words = shlex.split(line.partition("holdfast trust confirm ")[2])
    socket = ("--socket", gateway.folder / "run" / "agent.sock")
    done = lab.holdfast("trust", "confirm", *socket, *words)
    assert (done.status, "confirmed before" in done.out) == (0, True)
    done = lab.holdfast("trust", "confirm", *socket, *words[:-1], f"sha256:{'0' * 64}")
    assert (done.status, "not confirmed" in done.err) == (1, True)
    gateway.until(lambda: lab.ctl("fleet", "--json").status == 0)
    assert lab.ctl("fleet", "--json").json["roots_unconfirmed"] == []
