"""What a text that is refused may cost: a few times its size in memory, and one look at each character."""

import subprocess
import sys
import tracemalloc

import pytest

from snapshot.canonical import NotCanonical, parse
from snapshot.limits import Limits

COSTLY = {
    "one-string": b'["%b"]' % (b"[" * 1_000_000),
    "string-without-an-end": b'["' + b"[" * 1_000_000,
}


@pytest.mark.parametrize("data", COSTLY.values(), ids=COSTLY)
def test_what_is_refused_costs_little_memory(data):
    """threats E07, E17: a megabyte that holds too much is refused for a few times its size."""
    assert peak_of_refusing(data) < 16 * len(data)


def test_empty_objects_cost_little_memory():
    """threats E07"""
    data = b"[%b{}]" % (b"{}," * 330_000)
    assert peak_of_refusing(data) < 16 * len(data)


def peak_of_refusing(data):
    tracemalloc.start()
    try:
        with pytest.raises(NotCanonical):
            parse(data, Limits(json_values=1000))
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


# Runs under a limit on its own processor seconds: what is linear takes a hundredth of them.
LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_CPU, (4, 4))
from snapshot import canonical, limits
try:
    canonical.parse(sys.stdin.buffer.read(), limits.Limits(json_values=1000))
except canonical.NotCanonical:
    sys.exit(7)
"""


@pytest.mark.parametrize("end", [b"", b"\\"], ids=["open", "backslash"])
def test_strings_without_an_end_are_read_once(end):
    """threats E17, E24"""
    data = b'["' + b'\\"[' * 100_000 + end
    assert subprocess.run([sys.executable, "-c", LIMITED], input=data, check=False).returncode == 7
