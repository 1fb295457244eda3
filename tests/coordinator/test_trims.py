"""When a running coordinator trims, and when it says that it could see members."""

from sqlalchemy import update

from coordinator.database import readiness, schema
from tests.coordinator.daemon import refusal, running
from tests.coordinator.founding import Founded, set_restored

DAY = 86_400


async def test_a_member_is_trimmed_while_it_runs(founded: Founded) -> None:
    """rules K23, X29, P19: told `removed`; who asks for its head stays; nobody says to be ready who is not."""
    async with running(founded) as at:
        coordinator, trims = at.daemon.coordinator, at.daemon.trims
        database, window_s = coordinator.database, coordinator.settings.trim_window_s
        await trims.note()
        assert (await at.ask("GET", "/v1/trim"))["ready_since"] is None, "nobody was seen"
        silent, asks = await at.admit("silent"), await at.admit("asks")
        await asks.head()
        await trims.note()
        assert (await at.ask("GET", "/v1/trim"))["ready_since"] is not None
        now = coordinator.now()
        with database.record() as transaction:
            transaction.run(update(schema.readiness).values(since=now - window_s - DAY))
            transaction.run(update(schema.nodes).values(first_seen=now - window_s - DAY))
        fleet = await at.ask("GET", "/v1/fleet")
        assert [member["node_id"] for member in fleet["unseen"]] == ["asks", "silent"], "noted, and not written yet"
        (due,) = [thing for thing in (await at.ask("GET", "/v1/due"))["things"] if thing["what"] == "unseen_member"]
        assert (due["name"], due["urgency"]) == ("asks and 1 more", "ended")
        set_restored(database, 1)
        await at.daemon.keeper.look()
        await trims.trim()
        set_restored(database, None)
        await at.daemon.keeper.look()
        assert len((await at.ask("GET", "/v1/nodes"))["nodes"]) == 2, "while it is not ready nobody goes"
        await trims.trim()
        assert [node["node_id"] for node in (await at.ask("GET", "/v1/nodes"))["nodes"]] == ["asks"]
        assert await refusal(silent.head()) == "removed"
        assert (await asks.head()).status == 200
        assert await refusal(at.ask("POST", "/v1/trim", {"node_ids": ["asks"]})) == "contradiction"
        with database.read() as transaction:
            assert readiness.since(transaction, now) == now - window_s - DAY
