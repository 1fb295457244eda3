"""seed 004; rules P4"""

import threading

from store.watch import GenerationChange, Watch
from tests.store.cluster import NOW, SCOPE


def test_a_subscriber_learns_of_each_activation(node, cluster):
    """seed 004: `Watch`"""
    seen = []
    stop = node.store.watch.subscribe(seen.append)
    generation = node.store.watch.generation
    node.apply(cluster.snapshot(1, {"a": 1}))
    node.store.withdraw(SCOPE, now=NOW)
    assert seen == [GenerationChange(generation + 1, (SCOPE,)), GenerationChange(generation + 2, (SCOPE,))]
    stop()
    stop()
    node.apply(cluster.snapshot(2, {"a": 2}))
    assert len(seen) == 2


def test_when_it_is_told_the_change_is_durable(node, cluster):
    """architecture: persist, then tell"""
    read = []

    def listener(change):
        with node.store.read() as reading:
            read.append((reading.generation, reading.active(SCOPE).read("a"), change.generation))

    node.store.watch.subscribe(listener)
    node.apply(cluster.snapshot(1, {"a": 1}))
    assert read == [(2, b"1", 2)]


def test_a_thread_waits_without_polling(node, cluster):
    found = []
    after = node.store.watch.generation
    thread = threading.Thread(target=lambda: found.append(node.store.watch.wait(after, 20)))
    thread.start()
    node.apply(cluster.snapshot(1, {"a": 1}))
    thread.join(20)
    assert found == [after + 1]
    assert node.store.watch.wait(after, 0) == after + 1
    assert node.store.watch.wait(after + 1, 0) is None


def test_late_and_doubled_notifications_never_go_back():
    """rules P4"""
    watch, seen = Watch(5), []
    watch.subscribe(seen.append)
    for generation in (6, 6, 4, 8, 7):
        watch.tell(GenerationChange(generation, ()))
    assert [change.generation for change in seen] == [6, 8]
    assert watch.generation == 8


def test_a_failed_activation_tells_nothing(node, cluster):
    seen = []
    node.store.watch.subscribe(seen.append)
    verdict = node.apply(cluster.snapshot(1, {"a": 1}))
    try:
        node.store.activate(verdict, now=NOW, boot=None)
    except Exception as error:  # noqa: BLE001 - whatever it is, nothing is told
        assert "conflict" in str(error)
    assert len(seen) == 1
