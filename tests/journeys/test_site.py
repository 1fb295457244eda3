"""A site behind one link: what its nodes are given travels over it once, since one of them relays. Bytes are asserted,
and times are said.
"""

import random

import pytest

from tests.journeys.site import site

MB = 1_000_000
LINK = {"rate": 64_000, "delay_s": 0.3}  # 512 kbit/s, and 600 ms there and back
SHARE = 1.2


def content(size: int, seed: int = 0) -> bytes:
    """Nothing that anybody takes for a secret."""
    return bytes(byte | 0x80 for byte in random.Random(seed).randbytes(size))


def test_what_a_site_is_given_travels_over_its_link_once(tmp_path):
    """rules L19, K5, X27, S2: four nodes, one of which relays; a second change, and one while the relay is down"""
    with site(tmp_path, ["n1", "n2", "n3", "n4"], relays=["n1"]) as made:
        made.declare(b"first")
        made.join()
        made.until_relayed()
        for seed in (1, 2):
            data = content(2 * MB, seed)
            made.link.reset()
            made.declare(data)
            made.until_held(data)
            assert 1.0 <= made.link.passed["in"] / len(data) <= SHARE
        others = [made.nodes[name] for name in ("n2", "n3", "n4")]
        relay = f"https://{made.address(0)}:7445"
        assert {node.status["origins"]["config/big"]["source"] for node in others} == {relay}
        made.nodes["n1"].kill()
        del made.nodes["n1"]
        data = content(MB, 3)
        made.declare(data)
        made.until_held(data)


@pytest.mark.slow
@pytest.mark.parametrize("count", [20])
def test_twenty_nodes_behind_a_satellite_link(tmp_path, count, capsys):
    """512 kbit/s and 600 ms, a change of 5 MiB: against one node alone on the same link"""
    data = content(5 << 20)
    with site(tmp_path / "alone", ["n1"]) as made:
        made.declare(b"first")
        made.join()
        made.link.shape(**LINK)
        made.declare(data)
        alone_s = max(made.until_held(data).values())
    names = [f"n{number}" for number in range(1, count + 1)]
    with site(tmp_path / "site", names, relays=["n1"]) as made:
        made.declare(b"first")
        made.join()
        made.until_relayed()
        made.link.shape(**LINK)
        made.link.reset()
        made.declare(data)
        together_s = max(made.until_held(data).values())
        share = made.link.passed["in"] / len(data)
    with capsys.disabled():
        print(f"\none node alone: {alone_s:.0f} s; {count} nodes: {together_s:.0f} s, {share:.2f} of the content")
    assert share <= SHARE
