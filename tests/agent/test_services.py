"""Telling services: once for changes that come together, again until it is taken, also after a crash."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
import trio

from agent.services.notifiers import Told
from agent.services.services import LocalService, ready_for
from snapshot.degraded import GateFacts
from snapshot.grants import Policy
from tests.agent.lab import DAY, NOW, Periphery, held, serving
from tests.fakes.clock import Inline
from tests.logs import capture_logs
from tests.world import elapsed


@dataclass
class Listener:
    """A service that remembers what it was told; `answer` decides what it says."""

    told: list[int] = field(default_factory=list)
    answer: Callable[[int], bool] = lambda count: True
    heard: trio.Event = field(default_factory=trio.Event)
    holding: trio.Event | None = None

    async def tell(self, service: str, generation: int) -> Told:
        self.told.append(generation)
        self.heard.set()
        if self.holding is not None:
            await self.holding.wait()
        return Told(self.answer(len(self.told)), "said so")

    async def until(self, count: int) -> None:
        with trio.fail_after(600):
            while len(self.told) < count:
                self.heard = trio.Event()
                await self.heard.wait()


def with_service(periphery: Periphery, listener: Listener, *scopes: str, settle_s: float = 0.05) -> Periphery:
    service = LocalService("web", scopes or ("route_policy",), listener)
    return replace(periphery, services=(service,), settle_s=settle_s)


async def test_a_service_is_told_after_the_files_show_it(periphery):
    """rules S67, S68: after the swap is durable; with the generation, which is `set_id`."""
    listener = Listener()
    made = with_service(periphery, listener)
    made.route(1, {"routes": {}})
    async with serving(made):
        await listener.until(1)
        assert listener.told == [made.node.store.watch.generation]
        assert made.published.value == made.node.store.watch.generation
        assert (made.files / "route_policy/routes.json").read_bytes() == b"{}"
        found = await made.recorded("web", ok=True)
    assert dict(found["versions"])["route_policy"][:2] == (1, 1)


async def test_only_what_it_depends_on_concerns_it(periphery):
    listener = Listener()
    made = with_service(periphery, listener)
    made.route(1, {"routes": {}})
    async with serving(made):
        await listener.until(1)
        await made.recorded("web", ok=True)
        made.apply(made.node.cluster.snapshot(1, {"policies": {}}, scope="qos_policy"))
        made.apply(made.node.cluster.head(2))
        await made.published.wait_above(made.node.store.watch.generation - 1)
        made.route(2, {"routes": {"a": {}}})
        await made.published.wait_above(made.node.store.watch.generation - 1)
        await listener.until(2)
    assert listener.told[1:] == [made.node.store.watch.generation]


async def test_changes_within_the_settle_time_are_told_once(periphery, autojump_clock):
    listener = Listener()
    made = with_service(replace(periphery, threads=Inline()), listener, settle_s=0.5)
    async with serving(made):
        for version in range(1, 6):
            made.route(version, {"routes": {str(version): {}}})
        await listener.until(1)
        await made.recorded("web", ok=True)
    assert listener.told == [made.node.store.watch.generation]


async def test_a_change_while_it_is_being_told_is_told_afterwards(periphery):
    listener = Listener(holding=trio.Event())
    made = with_service(periphery, listener)
    made.route(1, {"routes": {}})
    async with serving(made):
        await listener.until(1)
        made.route(2, {"routes": {"b": {}}})
        await made.published.wait_above(made.node.store.watch.generation - 1)
        listener.holding.set()
        await listener.until(2)
    assert listener.told[-1] == made.node.store.watch.generation


async def test_after_a_crash_in_between_it_is_told_at_the_start_and_only_then(periphery):
    """rules S68: at least once; who has taken it is not told again."""
    refusing, taking, third = Listener(answer=lambda count: False), Listener(), Listener()
    made = with_service(periphery, refusing)
    made.route(1, {"routes": {}})
    async with serving(made):
        await refusing.until(1)
        await made.recorded("web", ok=False)
    async with serving(with_service(periphery, taking)) as again:
        await taking.until(1)
        await again.recorded("web", ok=True)
    async with serving(with_service(periphery, third)) as once_more:
        once_more.route(2, {"routes": {"later": {}}})
        await third.until(1)
    assert third.told == [made.node.store.watch.generation]


async def test_a_withdrawn_scope_is_told(periphery):
    """rules S3."""
    listener = Listener()
    made = with_service(periphery, listener)
    made.route(1, {"routes": {}})
    async with serving(made):
        await listener.until(1)
        await made.recorded("web", ok=True)
        made.node.store.withdraw("route_policy", now=NOW)
        await listener.until(2)
        assert not (made.files / "route_policy").exists()


async def test_a_service_without_any_of_its_scopes_is_left_alone(periphery):
    listener = Listener()
    periphery.route(1, {"routes": {}})
    async with serving(with_service(periphery, listener, "qos_policy")) as made:
        made.apply(made.node.cluster.snapshot(1, {"policies": {}}, scope="qos_policy"))
        await listener.until(1)
    assert listener.told == [made.node.store.watch.generation]


async def test_it_is_told_again_until_it_takes_it(periphery, autojump_clock):
    """With back-off, under the test's clock; a warning each time that it does not."""
    listener = Listener(answer=lambda count: count == 4)
    made = with_service(replace(periphery, threads=Inline()), listener)
    made.route(1, {"routes": {}})
    made.published.tell(made.node.store.watch.generation)
    begun = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(made.telling.run)
        with capture_logs() as logs:
            await listener.until(4)
            await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert elapsed.since(begun) > 3 * 5
    levels = [one["log_level"] for one in logs if one["event"] == "service told"]
    assert levels == ["warning"] * 3 + ["info"]


@pytest.mark.parametrize(
    ("scopes", "facts", "now", "expected"),
    [
        (("route_policy",), GateFacts(head_expires_at=NOW + 60), NOW, (True, "ok")),
        (("route_policy/*",), GateFacts(head_expires_at=NOW + 60), NOW, (True, "ok")),
        (("qos_policy",), GateFacts(head_expires_at=NOW + 60), NOW, (False, "scope_missing")),
        (("route_policy", "qos_policy/*"), GateFacts(head_expires_at=NOW + 60), NOW, (False, "scope_missing")),
        (("route_policy",), GateFacts(head_expires_at=NOW + 60), NOW + 8 * DAY, (False, "scope_expired")),
        (("route_policy",), GateFacts(cause="revoked"), NOW, (False, "revoked")),
        (("route_policy",), GateFacts(head_expires_at=NOW), NOW, (False, "no_degraded_policy")),
    ],
)
def test_ready_for(periphery, scopes, facts, now, expected):
    """rules A11, X24, L22: its scopes, and what the state lets it do; never ready while it cannot run."""
    periphery.route(1, {"routes": {}})
    assert ready_for(LocalService("web", scopes, Listener()), periphery.views.all(), facts, now) == expected


WEB, DB = "service_assignment/web", "service_assignment/db"


@pytest.mark.parametrize(
    ("scopes", "listed", "expected"),
    [
        (("service_assignment/*",), (), (True, "ok")),
        (("service_assignment",), (), (True, "ok")),
        (("service_assignment/*",), (WEB,), (True, "ok")),
        (("service_assignment/*",), (WEB, DB), (False, "scope_missing")),
        ((WEB,), (WEB, DB), (True, "ok")),
        ((DB,), (), (False, "scope_missing")),
        (("route_policy",), (), (False, "scope_missing")),
    ],
)
def test_who_follows_every_service_needs_those_that_the_head_lists(periphery, scopes, listed, expected):
    """rules A11: no service at all is well, one that is listed and is not here is missing."""
    periphery.route(1, {"routes": {}})
    view, facts = periphery.views.all(), GateFacts(head_expires_at=NOW + 60)
    held = {WEB: view.scopes["route_policy"]} if WEB in listed else {}
    answer = ready_for(LocalService("web", scopes, Listener()), replace(view, scopes=held), facts, NOW, listed)
    assert answer == expected


def test_ready_for_in_degraded_mode_as_the_policy_allows(periphery):
    """rules A11."""
    periphery.route(1, {"routes": {}})
    service, view = LocalService("web", ("route_policy",), Listener()), periphery.views.all()
    for allow, expected in (({"continue_services"}, (True, "ok")), ({"report_degraded"}, (False, "not_in_policy"))):
        policy = Policy(frozenset(allow), 3600, 60, 60, False)
        facts = GateFacts(head_expires_at=NOW, policy=policy, scopes={"degraded_mode_policy": held()})
        assert ready_for(service, view, facts, NOW) == expected


async def test_nobody_is_told_on_the_word_of_roots_that_nobody_has_compared(periphery, autojump_clock):
    """threats D-19: not at the start and not after a change; once they are confirmed it is told what is active"""
    listener, confirmed = Listener(), []
    made = with_service(replace(periphery, threads=Inline()), listener)
    made.telling.may_tell = lambda: bool(confirmed)
    made.route(1, {"routes": {}})
    async with serving(made):
        found = await made.recorded("web", ok=False)
        assert found["detail"].startswith("roots_unconfirmed: ") and "holdfast trust confirm" in found["detail"]
        made.route(2, {"routes": {"a": {}}})
        await made.published.wait_above(made.node.store.watch.generation - 1)
        await trio.sleep(3600)
        assert listener.told == []
        confirmed.append(True)
        await listener.until(1)
        assert listener.told == [made.node.store.watch.generation]
        await made.recorded("web", ok=True)


async def test_what_was_told_before_is_not_forgotten_by_being_held_back(periphery, autojump_clock):
    listener, confirmed = Listener(), [True]
    made = with_service(replace(periphery, threads=Inline()), listener)
    made.telling.may_tell = lambda: bool(confirmed)
    made.route(1, {"routes": {}})
    async with serving(made):
        await listener.until(1)
        await made.recorded("web", ok=True)
        confirmed.clear()
        made.route(2, {"routes": {"a": {}}})
        found = await made.recorded("web", ok=False)
        assert dict(found["versions"])["route_policy"][:2] == (1, 1)
        assert len(listener.told) == 1
