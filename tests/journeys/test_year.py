"""400 days: the coordinator's own parts under a clock that a test moves, and a node's verifier.

With `due` looked at every tenth day an operator who does no more than what it says keeps everything going. Without, it
has said so for a third of each lifetime before anything ends, and then says what has ended.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest
from sqlalchemy import update

from agent.state.node_state import NodeFacts, State, assess
from coordinator.database import documents, schema
from coordinator.database.database import Database
from coordinator.keys import keystore, tokens
from coordinator.publishing import declarations
from coordinator.publishing.publisher import container_of
from coordinator.run import Daemon, build
from coordinator.runtime import expiries
from coordinator.runtime.maintenance import Keeper
from coordinator.runtime.metrics import Readiness
from coordinator.setup import backup, configuration, initialise
from coordinator.setup.backup import BackupRequest
from coordinator.setup.cluster_request import ClusterRequest
from coordinator.setup.initialise import CONFIG_LIFETIME_S
from coordinator.setup.opening import with_history
from coordinator.trust import request_builder, trust_import
from coordinator.trust.ceremony import Add, PublicKey, Retire
from holdfast.ctl.setup import configuration_text
from snapshot.bundle import CONFIG
from snapshot.degraded import GateFacts as Gate
from snapshot.degraded import HeldScope
from snapshot.ending import Thing, Urgency, due
from snapshot.identifiers import HEAD, format_time
from snapshot.reasons import Reason, Rejected
from snapshot.verify import Verified
from tests.coordinator.candidates import FOUNDING, NOW, admit
from tests.coordinator.publishing import STATE, Reader
from tests.logs import capture_logs

DAY = 86_400
DAYS = 400
LOOKS_EVERY = 10  # days
LOOKED = (*range(0, 10, 5), *range(20, 240, 20), *range(240, 250), *range(255, 355, 20), *range(355, 365))
"""Days of the year: one by one around what comes first and last, of the others few."""
MONTHLY = "backup_age_s = 2592000\n"
WATCHED = ("trust_bundle", "config_key", "signing", "backup")


class Node(Reader):
    """Takes what is published by its own verifier, and judges its state by the agent's own rules."""

    def __init__(self, year: "Year") -> None:
        self.ends: dict[str, int] = {}
        super().__init__(year, "node-a")

    def take(self, document: documents.Document, kind: str | None = None) -> Verified:
        verdict = super().take(document, kind)
        self.ends[HEAD if verdict.kind == HEAD else verdict.scope] = verdict.envelope.expires_at
        return verdict

    @property
    def state(self) -> State:
        now, head = self.press.now, self.ends[HEAD]
        scopes = {name: HeldScope(end, 1) for name, end in self.ends.items() if name != HEAD}
        gate = Gate(head_expires_at=head, head_expired_for_s=max(0.0, now - head), scopes=scopes, authority_epoch=1)
        facts = NodeFacts(True, bootstrap_accepted=True, head_accepted=True, listed=frozenset(scopes), gate=gate)
        return assess(facts, now).state


@dataclass
class Year:
    """One coordinator with one member; `now` is everybody's clock."""

    folder: Path
    settings: str = ""
    now: float = NOW
    bundles: SimpleNamespace = field(default_factory=SimpleNamespace)
    done: list[tuple[int, str]] = field(default_factory=list)  # what the operator did, by day

    def __post_init__(self) -> None:
        state = self.folder / "state"
        self.configuration = self.folder / "coordinator.toml"
        options = {"coordinator_id": "coord-1", "listen": "127.0.0.1:0", "listen_join": "127.0.0.1:0"}
        options |= {"listen_admin": "", "listen_probes": "127.0.0.1:0", "admin_socket": self.folder / "admin.sock"}
        text = configuration_text(options, state, f"sqlite:///{state}/coordinator.db")
        wanted = ClusterRequest(
            "prod", "coord-1", "https://coord.example:7443", f"sqlite:///{state}/coordinator.db", state,
            self.folder / "roots", configuration=(self.configuration, f"{text}\n[settings]\n{self.settings}"),
            settings=configuration.parse(f"{text}\n[settings]\n{self.settings}").settings,
        )  # fmt: skip
        initialise.initialise(wanted, actor="root", now=self.now)
        self._admit(wanted.database_url)
        self.daemon: Daemon = build(configuration.load(self.configuration), lambda: self.now)
        declarations.apply(self.database, {"state.yaml": STATE}, actor="root", now=self.now)
        self.bundles.first = container_of(documents.trust_bundles(self.database, 0)[0])
        self.roots = keystore.find([wanted.root_keys], [])
        self.keeper = Keeper(self.daemon.coordinator, Readiness())

    @property
    def database(self) -> Database:
        return self.daemon.coordinator.database

    def _admit(self, url: str) -> None:
        """Through the entry that test nodes know; the daemon's start puts its own there again."""
        database = with_history(Database(url), self.folder / "state" / "keys")
        with database.change(actor="root", now=self.now) as transaction:
            mine = {"certificate_sha256": FOUNDING.certificate_sha256, "token_public_key": FOUNDING.token_public_key}
            key_id = tokens.key_id_of(FOUNDING.token_public_key)
            transaction.run(update(schema.coordinators).values(**mine, token_key_id=key_id))
            transaction.audit("test", "coord-1")
        admit(database, "node-a")
        database.close()

    @property
    def day(self) -> int:
        return int((self.now - NOW) / DAY)

    async def publish(self) -> str:
        """What is due goes out; why nothing can be published, or nothing."""
        await self.keeper.look()
        await self.daemon.coordinator.publisher._publish_due()
        return self.daemon.coordinator.publisher.health.reason

    async def look(self) -> list[Thing]:
        """What `due` says, in order."""
        return due(await self.daemon.reminder.look(), self.now)

    # ---- the operator, who does what the remedy says

    def renew(self, thing: Thing) -> None:
        self.done.append((self.day, thing.remedy.split(" --")[0]))
        match thing.what, thing.remedy.split()[:3]:
            case "backup", _:
                at = configuration.load(self.configuration)
                backup.make(BackupRequest(at, self.configuration, self._backups()), actor="root", now=self.now)
            case "trust_bundle", _:
                self._ceremony()
            case (("config_key" | "signing"), ["holdfastctl", "rotate", "add" | "add,"]):
                self._add_config_key()
            case "config_key", ["holdfastctl", "rotate", "retire"]:
                self._ceremony(Retire(thing.name))
            case _:
                raise AssertionError(thing)

    def _backups(self) -> Path:
        folder = self.folder / "backups"
        folder.mkdir(exist_ok=True)
        return folder

    def _add_config_key(self) -> None:
        """And `systemctl reload`."""
        key = keystore.new_key()
        keystore.keep(self.folder / "state" / "keys", CONFIG, key)
        end = int(self.now) + CONFIG_LIFETIME_S
        self._ceremony(Add(PublicKey(key.algorithm, key.public_key), CONFIG, end))
        self.daemon.coordinator.publisher.keys = keystore.config_keys(self.folder / "state" / "keys", {})

    def _ceremony(self, *wishes: Add | Retire) -> None:
        settings = self.daemon.coordinator.settings
        request = request_builder.bundle_request(self.database, wishes, settings, self.now)
        for root in self.roots:
            if root.key_id in request.envelope.signers:
                request = request.with_signature(root)
        trust_import.add_trust_bundle(self.database, request.document().to_bytes(), actor="root", now=self.now)
        self.daemon.coordinator.publisher.reconsider()


@pytest.fixture
def settings() -> str:
    return ""


@pytest.fixture
def year(tmp_path: Path, settings: str) -> Iterator[Year]:
    made = Year(tmp_path, settings)
    yield made
    made.database.close()


@pytest.mark.parametrize("settings", [MONTHLY], ids=["backups once a month"])
async def test_an_operator_who_looks_at_due_keeps_everything_going(year: Year):
    """rules P1, S36: 400 days; at each look everything is published, the node is ACTIVE, and nothing has ended"""
    node = Node(year)
    for _ in range(0, DAYS, LOOKS_EVERY):
        for thing in await year.look():
            assert thing.urgency(year.now) is Urgency.SOON, (year.day, thing)
            still_due = {(each.what, each.name) for each in await year.look()}
            if (thing.what, thing.name) in still_due and ", from " not in thing.remedy:
                year.renew(thing)
        assert await year.publish() == "", year.day
        node.follow()
        assert node.state is State.ACTIVE, year.day
        year.now += LOOKS_EVERY * DAY
    ceremonies = [(day, what) for day, what in year.done if "backup" not in what]
    assert ceremonies[0][0] == 250  # due from day 244 on
    assert {what.rsplit(" ", 1)[0] if "retire" in what else what for _, what in ceremonies} >= {
        "holdfastctl rotate add",
        "holdfastctl rotate retire",
    }
    assert [what for _, what in ceremonies].count("holdfastctl rotate add") == 1
    assert len(ceremonies) == 2, ceremonies  # a year's work: a successor, whose bundle holds for a year, then `retire`
    # A backup each time it is asked for, which is after two thirds of a month.
    assert len(year.done) - len(ceremonies) == (DAYS - 1) // 20


async def test_without_it_everything_was_said_for_a_third_of_its_life_and_then_what_has_ended(year: Year):
    """The bundle and the config key live a year, from the same day on"""
    node, soon, logged = Node(year), dict[str, list[int]](), set[str]()
    for day in LOOKED:
        year.now = NOW + day * DAY
        with capture_logs() as logs:
            found = await year.look()
        logged |= {each["what"] for each in logs if each["event"] == "ends"}
        assert logged >= {each.what for each in found}  # said on the day on which it is due first
        for thing in found:
            soon.setdefault(thing.what, []).append(year.day)
        assert await year.publish() == "", year.day
        node.follow()
        assert node.state is State.ACTIVE
    year.now = NOW + 365 * DAY
    for what in ("trust_bundle", "config_key", "signing"):
        assert soon[what] == [day for day in LOOKED if day >= 244], what  # a third of 365 days, without a gap
    assert soon["backup"][0] == 5
    await after_the_end(year, node)


async def after_the_end(year: Year, node: Node) -> None:
    """What is said, and what refuses."""
    with capture_logs() as logs:
        things = {each.what: each for each in await year.look()}
    ended = {what for what, each in things.items() if each.urgency(year.now) is Urgency.ENDED}
    assert ended == set(WATCHED)
    assert {each["what"] for each in logs if each.get("urgency") == "ended"} >= {"trust_bundle", "config_key"}
    assert "nothing can be published" in things["trust_bundle"].sentence(year.now)
    assert "no_signer" in await year.publish()
    held = dict(node.ends)
    head = documents.head(year.database, "node-a")
    with pytest.raises(Rejected) as refused:
        node.take(head)
    assert refused.value.reason in (Reason.KEY_EXPIRED, Reason.TRUST_BUNDLE_TOO_OLD, Reason.EXPIRED)
    assert node.ends == held
    year._add_config_key()  # late, and still the way back: root keys live on
    assert await year.publish() == ""
    node.follow()
    assert node.state is State.ACTIVE
    assert {each.what for each in await year.look()} == {"backup", "config_key"}  # the old key is to be taken away


@pytest.mark.parametrize(("day", "said"), [(59, False), (60, True), (89.9, True)])
async def test_a_bundle_of_90_days_is_said_from_day_60_on(tmp_path: Path, day: float, said: bool):
    """As it was set before a year was the default; nothing had said it at these days"""
    year = Year(tmp_path, "trust_bundle_lifetime_s = 7776000\nbackup_age_s = 0\n")
    try:
        year.now += day * DAY
        assert await year.publish() == ""
        found = await year.look()
        assert [each.what for each in found] == (["trust_bundle"] if said else [])
        short = expiries.in_short(year.daemon.reminder.things)
        assert {each.what: format_time(each.ends) for each in short}["trust_bundle"] == format_time(NOW + 90 * DAY)
        year.now = NOW + 90 * DAY
        assert "expired" in await year.publish()
        assert [each.urgency(year.now) for each in await year.look()] == [Urgency.ENDED]
    finally:
        year.database.close()
