"""A curve as SVG: both axes by powers of ten, one line a series.

Written here, not by a library for plots: these are sixty lines that give the same bytes everywhere, so that a test can
hold a plot against its figures; a library would be the largest thing that the tests install.
"""

import html
import math
from collections.abc import Iterator, Mapping, Sequence

Points = Sequence[tuple[float, float]]

WIDTH, HEIGHT = 640, 360
LEFT, RIGHT, TOP, BOTTOM = 70, 190, 30, 45
COLOURS = ("#1f6feb", "#d1242f", "#1a7f37", "#9a6700", "#8250df", "#57606a", "#bf3989", "#1b7c83")


def svg(title: str, across: str, up: str, series: Mapping[str, Points]) -> str:
    """`across`, `up`: what the axes count, with the unit."""
    points = [point for each in series.values() for point in each]
    horizontal = _Axis([x for x, _ in points], LEFT, WIDTH - RIGHT)
    vertical = _Axis([y for _, y in points], HEIGHT - BOTTOM, TOP)
    middle = HEIGHT // 2
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" style="font: 11px sans-serif">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<text x="{LEFT}" y="18" font-size="13">{html.escape(title)}</text>',
        *_grid(horizontal, vertical),
        *_lines(series, horizontal, vertical),
        f'<text x="{(LEFT + WIDTH - RIGHT) // 2}" y="{HEIGHT - 8}" text-anchor="middle">{html.escape(across)}</text>',
        f'<text x="14" y="{middle}" transform="rotate(-90 14 {middle})" text-anchor="middle">{html.escape(up)}</text>',
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


class _Axis:
    """From values to places, by their logarithms, over whole powers of ten."""

    def __init__(self, values: Sequence[float], begin: float, end: float) -> None:
        self.first = math.floor(math.log10(min(values)))
        self.last = max(self.first + 1, math.ceil(math.log10(max(values))))
        self.begin, self.end = begin, end

    def place(self, value: float) -> float:
        share = (math.log10(value) - self.first) / (self.last - self.first)
        return round(self.begin + share * (self.end - self.begin), 1)

    def marks(self) -> list[float]:
        return [10.0**power for power in range(self.first, self.last + 1)]


def _grid(horizontal: _Axis, vertical: _Axis) -> Iterator[str]:
    for value in horizontal.marks():
        x = horizontal.place(value)
        yield f'<path d="M{x} {TOP}V{HEIGHT - BOTTOM}" stroke="#d0d7de"/>'
        yield f'<text x="{x}" y="{HEIGHT - BOTTOM + 15}" text-anchor="middle">{value:,.10g}</text>'
    for value in vertical.marks():
        y = vertical.place(value)
        yield f'<path d="M{LEFT} {y}H{WIDTH - RIGHT}" stroke="#d0d7de"/>'
        yield f'<text x="{LEFT - 6}" y="{y + 4}" text-anchor="end">{value:,.10g}</text>'


def _lines(series: Mapping[str, Points], horizontal: _Axis, vertical: _Axis) -> Iterator[str]:
    for number, (name, points) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        places = [(horizontal.place(x), vertical.place(y)) for x, y in points]
        path = " ".join(f"{'L' if index else 'M'}{x} {y}" for index, (x, y) in enumerate(places))
        yield f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
        yield from (f'<circle cx="{x}" cy="{y}" r="2.5" fill="{colour}"/>' for x, y in places)
        y = TOP + 14 * number + 8
        yield f'<path d="M{WIDTH - RIGHT + 10} {y - 4}h16" stroke="{colour}" stroke-width="1.5"/>'
        yield f'<text x="{WIDTH - RIGHT + 30}" y="{y}">{html.escape(name)}</text>'
