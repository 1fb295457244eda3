"""What a benchmark has found, one JSON line a figure, for whoever collects (benchmarks/harness).

A benchmark prints for people, as ever. Where HOLDFAST_FIGURES names a file its figures are written there besides: what
is measured stands in one place, and no line that people read is parsed again.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

PLACE = "HOLDFAST_FIGURES"


@dataclass(frozen=True)
class Figure:
    """`samples`: one a round, in `unit`. `floor`: of the same rounds, by the same clock, what the work costs at least.

    `size`: of a curve, where on it this lies: nodes, sections, bytes. 0 of what is no curve.
    """

    name: str
    unit: str
    samples: tuple[float, ...]
    floor: tuple[float, ...] = ()
    size: int = 0

    def __post_init__(self) -> None:
        if not self.samples or (self.floor and len(self.floor) != len(self.samples)):
            raise ValueError(f"{self.name}: a figure has samples, and a floor for each of them or for none")


def note(name: str, unit: str, samples: Sequence[float], *, floor: Sequence[float] = (), size: int = 0) -> None:
    """Nothing, where nobody collects."""
    figure = Figure(name, unit, _rounded(samples), _rounded(floor), size)
    if place := os.environ.get(PLACE):
        with Path(place).open("a") as file:
            file.write(json.dumps(asdict(figure)) + "\n")


def _rounded(values: Sequence[float]) -> tuple[float, ...]:
    """More digits than these say nothing."""
    return tuple(float(f"{value:.4g}") for value in values)


def read(place: Path) -> list[Figure]:
    """In the order in which they were noted."""
    return [of(json.loads(line)) for line in place.read_text().splitlines()]


def of(value: dict[str, object]) -> Figure:
    named = dict(value)
    return Figure(**{**named, "samples": tuple(named["samples"]), "floor": tuple(named["floor"])})
