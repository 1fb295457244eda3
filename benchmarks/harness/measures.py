"""What is made of a figure's samples, and whether that is what it was to be.

Medians, since one round on a busy machine says little; a ratio is the median of the rounds' own ratios, so that what
disturbed a round disturbed its floor too. An exponent is the slope of a line through the logarithms of the medians, 0
is flat, 1 linear, 2 quadratic: of the larger half of the sizes, since at small ones all else that is paid hides it.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.figures import Figure

Curve = Sequence[Figure]  # of one name, by size; of one size where it is none


def median(curve: Curve) -> float:
    """Of the largest size."""
    return statistics.median(curve[-1].samples)


def p99(curve: Curve) -> float:
    """The worst of a hundred, or the worst of fewer."""
    ordered = sorted(curve[-1].samples)
    return ordered[min(len(ordered) - 1, math.ceil(len(ordered) * 0.99) - 1)]


def worst(curve: Curve) -> float:
    return max(max(figure.samples) for figure in curve)


def ratio(curve: Curve) -> float:
    """Of the largest size, to its floor."""
    last = curve[-1]
    return statistics.median(ours / least for ours, least in zip(last.samples, last.floor, strict=True))


def exponent(curve: Curve) -> float:
    larger = curve[-max(2, (len(curve) + 1) // 2) :]
    points = [(math.log(figure.size), math.log(statistics.median(figure.samples))) for figure in larger]
    middle_x, middle_y = (statistics.fmean(each) for each in zip(*points, strict=True))
    return sum((x - middle_x) * (y - middle_y) for x, y in points) / sum((x - middle_x) ** 2 for x, _ in points)


MEASURES: Mapping[str, Callable[[Curve], float]] = {
    "median": median,
    "p99": p99,
    "worst": worst,
    "ratio": ratio,
    "exponent": exponent,
}


@dataclass(frozen=True)
class Goal:
    """`most` or `least`, of one measure of a figure; `size` where a curve is judged at one of its sizes alone."""

    figure: str
    measure: str
    what: str
    most: float | None = None
    least: float | None = None
    size: int = 0

    def __post_init__(self) -> None:
        if self.measure not in MEASURES or (self.most is None) == (self.least is None):
            known = ", ".join(MEASURES)
            raise ValueError(f"{self.figure}: a goal has one of the measures {known}, and either `most` or `least`")

    @property
    def limit(self) -> str:
        return f"<= {self.most:g}" if self.most is not None else f">= {self.least:g}"


@dataclass(frozen=True)
class Verdict:
    """`value` is None where nothing was measured."""

    goal: Goal
    unit: str
    value: float | None

    @property
    def is_met(self) -> bool:
        if self.value is None:
            return False
        if self.goal.most is not None:
            return self.value <= self.goal.most
        return self.goal.least is not None and self.value >= self.goal.least


def judge(goals: Sequence[Goal], found: Sequence[Figure]) -> list[Verdict]:
    """One a goal, in their order."""
    return [_judged(goal, curve_of(goal.figure, found)) for goal in goals]


def curve_of(name: str, found: Sequence[Figure]) -> Curve:
    return sorted((figure for figure in found if figure.name == name), key=lambda figure: figure.size)


def _judged(goal: Goal, curve: Curve) -> Verdict:
    chosen = [figure for figure in curve if goal.size in (0, figure.size)]
    if (
        not chosen
        or (goal.measure == "exponent" and len(chosen) < 2)
        or (goal.measure == "ratio" and not chosen[-1].floor)
    ):
        return Verdict(goal, "", None)
    unit = {"ratio": "x", "exponent": ""}.get(goal.measure, chosen[-1].unit)
    return Verdict(goal, unit, MEASURES[goal.measure](chosen))
