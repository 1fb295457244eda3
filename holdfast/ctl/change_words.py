"""What is said of a change, for people: one line for how far it is, the lines at its end, its timeline. Pure.

What nodes and other operators wrote stands in it as it was sent; whoever prints it makes it safe (terminal/shown.py).
"""

from collections.abc import Iterator, Mapping

from holdfast.terminal.durations import in_words
from wire.operators.change_answers import ChangeCourse, ChangeMoment, ChangeNews, ChangeRefusal, ChangeSummary

PREPARING, ROLLING, REVERTING = "preparing", "rolling", "reverting"
DONE, HALTED, REVERTED, SUPERSEDED = "done", "halted", "reverted", "superseded"
OVER = frozenset({DONE, HALTED, REVERTED, SUPERSEDED})
"""States in which nothing goes on unless a person does something."""
NAMED = 10  # refusals at the end of a change


_MEANINGS: Mapping[str, str] = {
    "proposed": "it waits for approvals",
    PREPARING: "its nodes judge it, and nobody runs it",
    ROLLING: "it goes from ring to ring",
    DONE: "all that could be reached run it",
    HALTED: "it waits for a person; nobody is given it any more, who has it keeps it",
    REVERTING: "another change takes it back",
    REVERTED: "another change has taken it back",
    SUPERSEDED: "a later change of the same has taken its place",
}


def standing(of: ChangeSummary) -> str:
    """Its state, and what that means."""
    return ": ".join(part for part in (of.state, _MEANINGS.get(of.state, "")) if part)


def sentence(of: ChangeSummary) -> str:
    """How far it is."""
    said = how_far(of) or of.why
    return f"{of.change} {of.state}: {said}" if said else f"{of.change} {of.state}"


def how_far(of: ChangeSummary) -> str:
    """Of one that is under way."""
    if of.state == "proposed":
        return f"{of.approvals} of {of.approvals_needed} approvals, holdfastctl changes approve {of.change}"
    if of.waits_for is not None:
        return f"waits for {of.waits_for}, which changes the same"
    if of.state == PREPARING and not of.counts.asked:
        return f"{of.counts.touched} nodes to ask"
    if of.state == PREPARING:
        return ", ".join([f"{of.counts.accepted}/{of.counts.asked} accepted", *_others(of)])
    if of.state in (ROLLING, REVERTING):
        return ", ".join([*_rings(of), f"{of.counts.active}/{of.counts.touched} nodes run it", *_others(of)])
    return ""


def _rings(of: ChangeSummary) -> Iterator[str]:
    """Of several policies each by its name."""
    for course in of.courses:
        by = f"{course.policy or 'default'} " if len(of.courses) > 1 else ""
        if course.phase == "passed":
            yield f"{by}all rings passed"
        elif course.ring:
            yield f"{by}ring {course.ring}/{course.rings}{_baking(of, course)}"


def _baking(of: ChangeSummary, course: ChangeCourse) -> str:
    is_baking = course.phase == "baking" and course.bake_s and of.counts.active >= of.counts.given
    return f" bakes {course.bake_s} s" if is_baking else ""


def _others(of: ChangeSummary) -> Iterator[str]:
    """Who is not with it, by what became of them."""
    counts = of.counts
    for count, what in (
        (counts.refused, "refused"),
        (counts.silent, "not heard of"),
        (counts.reverted, "went back"),
        (counts.offline, "offline and left out"),
    ):
        if count:
            yield f"{count} {what}"


def course_words(course: ChangeCourse) -> str:
    """By which steps its nodes go, and how far they are."""
    asked = {"all": "all are asked before", "ring": "each ring is asked before", "none": "nobody is asked"}
    steps = f"{asked.get(course.prepare, course.prepare)}, {course.rings} rings, each bakes {course.bake_s} s"
    ends = f"{course.success_percent} % have to take it, else {course.on_failure}"
    return f"{steps}, {ends}; {course.phase}" + (f", ring {course.ring}" if course.ring else "")


# ---- at its end


def ending(of: ChangeNews, lasted_s: float | None) -> list[str]:
    """What it came to, who said no, and what can be done. `lasted_s`: since its apply; None: that is not known."""
    return [_verdict(of, lasted_s), *refusal_lines(of, NAMED), *_advice(of)]


def _verdict(of: ChangeNews, lasted_s: float | None) -> str:
    counts = of.counts
    if of.state == DONE:
        span = f" in {in_words(lasted_s)}" if lasted_s is not None else ""
        more = "".join(f", {part}" for part in _others(of))
        return f"{of.change} done{span}: {counts.active} of {counts.touched} nodes run it{more}"
    if of.state == SUPERSEDED:
        return f"{of.change} superseded by {of.superseded_by}, which changes the same"
    if of.state == REVERTED:
        return f"{of.change} reverted: {of.why}"
    has_it = f"{counts.given} of {counts.touched} nodes were given it"
    return f"{of.change} {of.state}: {of.why}; {has_it}"


def refusal_lines(of: ChangeNews, most: int) -> list[str]:
    told = [f"    {refusal_words(refusal)}" for refusal in of.refusals[:most]]
    more = of.refusals_total - len(told)
    return [*told, f"    and {more} more"] if more > 0 else told


def refusal_words(each: ChangeRefusal) -> str:
    """`node-7 refused service_assignment/web at step 12, validator_refused: no upstream`."""
    what = {"refused": "refused", "reverted": "went back", "silent": "was not heard of"}.get(each.outcome, each.outcome)
    where = f" {each.scope}" if each.scope else ""
    step = f" at step {each.step}" if each.step is not None else ""
    why = ": ".join(part for part in (each.reason, each.detail) if part)
    return f"{each.node_id} {what}{where}{step}" + (f", {why}" if why else "")


def _advice(of: ChangeNews) -> Iterator[str]:
    if of.state == HALTED:
        yield f"nothing goes on by itself: apply what is right, or holdfastctl changes resume {of.change},"
        yield f"or holdfastctl changes revert {of.change}"


# ---- its timeline

_OF_A_CHANGE: Mapping[str, str] = {
    "proposed": "applied, and waits for approvals",
    "preparing": "begun",
    "given": "given to",
    "superseded": "superseded",
    "reverting": "is taken back",
    "reverted": "was taken back",
    "left_out": "was done without those that are switched off, and they get it when they return",
    "more": "more than is kept here",
}
_OF_A_NODE: Mapping[str, str] = {"silent": "was not heard of", "reverted": "went back"}


def moment_words(moment: ChangeMoment) -> str:
    """What happened, to whom, and why. A word of a later coordinator is shown as it is."""
    detail = f": {moment.detail}" if moment.detail else ""
    if moment.node_id:
        return f"{moment.node_id} {_OF_A_NODE.get(moment.what, moment.what)}{detail}"
    return _OF_A_CHANGE.get(moment.what, moment.what) + detail
