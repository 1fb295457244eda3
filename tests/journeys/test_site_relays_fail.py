"""What becomes of a site when its relays do not: killed in the middle of a change, back with an old disk, revoked."""

import shutil
import time

import pytest

from tests.journeys.site import PORT, site
from tests.journeys.test_site import LINK, MB, content

NAMES = ["n1", "n2", "n3", "n4"]
RELAYS, OTHERS = NAMES[:2], NAMES[2:]


def sources(node):
    return {row.get("node_id") or row["url"]: row for row in node.status["sources"]}


@pytest.mark.slow
def test_two_relays_fail_one_after_the_other(tmp_path, shown):
    """rules X27, L21, K54, S28: a relay dies while a change comes over a slow link, and the other one's copy is enough;
    it comes back with a disk of long ago, and nobody goes back; it is revoked, and is nobody from then on.
    """
    with site(tmp_path, NAMES, relays=RELAYS) as made:
        made.declare(b"first")
        made.join()
        made.until_relayed()
        first = made.nodes[RELAYS[0]]
        first.kill()
        shutil.copytree(first.folder / "state", tmp_path / "old", symlinks=True)
        first.start()
        made.declare(b"second")
        made.until_held(b"second")

        data = content(MB, 1)
        made.link.shape(**LINK)
        made.link.reset()
        made.declare(data)
        made.until(lambda: made.link.passed["in"] > len(data) // 2)
        assert not any(node.held == data for node in made.nodes.values())
        first.kill()
        del made.nodes["n1"]
        began = time.monotonic()
        made.until_held(data)
        took, share = time.monotonic() - began, made.link.passed["in"] / len(data)
        origins = {made.nodes[name].status["origins"]["config/big"]["source"] for name in OTHERS}
        assert origins == {f"https://{made.address(1)}:{PORT}"}, "the other relay's"
        assert share <= 2.4, "at most what each relay has fetched for itself"

        before = {name: made.nodes[name].status["scopes"] for name in OTHERS}
        shutil.rmtree(first.folder / "state")
        shutil.copytree(tmp_path / "old", first.folder / "state", symlinks=True)
        made.nodes["n1"] = first
        first.start()
        made.until_held(data, ["n1"])
        for name in OTHERS:
            status = made.nodes[name].status
            assert status["state"] == "active"
            assert {scope: held["active"] for scope, held in status["scopes"].items()} == {
                scope: held["active"] for scope, held in before[name].items()
            }
        more = content(MB // 4, 2)
        made.declare(more)
        made.until_held(more)

        made.lab.good("revoke", "node", "n1", "--reason", "sold with its disk", "--yes")
        made.until(lambda: all("n1" not in sources(made.nodes[name]) for name in OTHERS))
        last = content(MB // 4, 3)
        made.declare(last)
        made.until_held(last, [name for name in NAMES if name != "n1"])
        assert first.status["state"] == "revoked"
        assert first.held != last
    shown(f"a relay killed in mid-change: {took:.0f} s, {share:.2f} of the content over the link")
