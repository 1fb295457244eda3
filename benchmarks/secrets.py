"""Hostile strings cost the search for secrets, and the reading of JSON, no more than their length (threats E24).

For each string: the time for 64 KiB of it, the longest that a string may be, against that for 32 KiB in the same run.
2.0 is linear, 4.0 is quadratic. Last, a section of 1 MiB of the slowest ones, against one `json.loads` of it.

    python -m benchmarks.secrets
"""

import json
import time

from coordinator.declared import value_shapes
from snapshot import canonical, secrets
from snapshot.limits import Limits
from tests.known_answers.hostile import TAILS, UNITS, repeated
from tests.secret_corpus import AROUND

SIZE = 64 * 1024 - 8
MIB = 1024 * 1024
WORST = {
    "DSN": "a://" + "b" * 100,
    "Basic": "Basic aaaaaaaaaaaaaaaa",
    "Bearer": "Bearer aaaaaaaaaaaaaaaa.",
    "PSK": " : PSK ",
    "secret": "secret        =",
    "static key": "<secret>        \n#" + "c" * 100 + "\n",
    "dashes": "----- BEGIN a a a a ",
}


def main():
    print(f"{'string':<24}{'tail':<6}{'32 KiB us':>11}{'64 KiB us':>11}{'ratio':>8}")
    slowest = {}
    for name, unit in UNITS.items():
        taken = {tail: _doubled(unit, tail) for tail in TAILS}
        tail = max(taken, key=lambda one: taken[one][1])
        small, large = taken[tail]
        slowest[name] = (large, repeated(unit, SIZE) + tail)
        print(f"{name:<24}{tail!r:<6}{small * 1e6:>11.0f}{large * 1e6:>11.0f}{large / small:>8.2f}")
    _section(max(slowest.values())[1])
    _unclosed()
    _shapes()


def _shapes():
    """The coordinator's wider table: 1 MiB in which every family has to be looked for closely, and nothing is found."""
    families = value_shapes.shipped_shapes()
    literals = " ".join(literal for each in families.values() for literal in each.needs)
    taken = {}
    for name, unit in {**UNITS, "configuration": AROUND + "\n", **WORST}.items():
        text = literals + repeated(unit, MIB)
        taken[name] = _best(lambda text=text: [each.is_in(text) for each in families.values()])
    name = max(taken, key=taken.get)
    ordinary = taken["configuration"] * 1e3
    print(f"\nvalue shapes, 1 MiB: configuration {ordinary:.0f} ms, the slowest ({name}) {taken[name] * 1e3:.0f} ms")
    text = repeated(AROUND + "\n", MIB)
    without = _best(lambda: list(value_shapes.families_in(families, text)))
    print(f"without any of their literals: {without * 1e3:.1f} ms")


def _doubled(unit, tail):
    texts = [repeated(unit, size) + tail for size in (SIZE // 2, SIZE)]
    sections = [canonical.dumps([text]) for text in texts]
    return tuple(_best(lambda data=data: _looked_at(data)) for data in sections)


def _looked_at(data):
    parsed = canonical.parse(data)
    secrets.find_secret_in(parsed)
    for text in parsed.value:
        secrets.shape_of(text)


def _section(text):
    data = canonical.dumps([f"{number} {text}"[:SIZE] for number in range(MIB // len(canonical.dumps(text)))])
    floor = _best(lambda: json.loads(data))
    ours = _best(lambda: _looked_at(data))
    print(f"\n1 MiB of the slowest: {ours * 1e3:.1f} ms, json.loads {floor * 1e3:.1f} ms, ratio {ours / floor:.1f}")


def _unclosed():
    """Quotes that open strings without an end, which are refused before they are parsed."""
    small, large = (_best(lambda data=data: _refused(data)) for data in map(_quotes, (8192, 16384)))
    print(f"strings without an end, 16 KiB against 8 KiB: ratio {large / small:.2f}")


def _quotes(size):
    return b'["' + b'\\"[' * (size // 3)


def _refused(data):
    try:
        canonical.parse(data, Limits(json_values=1000))
    except canonical.NotCanonical:
        return
    raise AssertionError("taken")


def _best(work, rounds=5):
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


if __name__ == "__main__":
    main()
