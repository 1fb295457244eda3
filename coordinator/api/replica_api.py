"""Which coordinators the cluster has, as an operator asks, and as root keys declare it."""

from dataclasses import replace
from functools import partial

from sqlalchemy.exc import SQLAlchemyError

from coordinator.api.operator_route import for_operators, message_of, parameter
from coordinator.base.refusal import Code, Refused
from coordinator.base.threads import in_database, in_library
from coordinator.database import history
from coordinator.database.database import Database
from coordinator.database.database_fault import line_of
from coordinator.keys.signing_key import SigningKey, UnusableKeyError
from coordinator.membership import coordinator_sets, moving, replica_reports, replicas
from coordinator.membership.coordinator_sets import SetAdditions
from coordinator.runtime.context import Coordinator
from coordinator.trust import coordinator_set, request_builder, restored_backup, rotation
from coordinator.trust.ceremony import PublicKey
from snapshot.bundle import CONFIG
from snapshot.identifiers import MAX_INTEGER, is_id
from wire.operators.operator_answers import FormerKey, RemovedReplica, ReplicaList, ReplicaStanding, ReplicaStandings
from wire.operators.trust_answers import CommittedSet, DraftedRequest
from wire.operators.trust_messages import SUBMISSION_BYTES, SetDraftRequest, SetSubmission
from wire.request import Request
from wire.routes import HttpRoute
from wire.version import VERSION


class ReplicaApi:
    def __init__(self, coordinator: Coordinator) -> None:
        self._at = coordinator

    def routes(self) -> tuple[HttpRoute, ...]:
        return (
            HttpRoute("GET", "/v1/coordinators", for_operators(self.list_replicas)),
            HttpRoute("GET", "/v1/coordinators/status", for_operators(self.standings)),
            HttpRoute("POST", "/v1/coordinators/set", for_operators(self.draft_set)),
            HttpRoute("POST", "/v1/coordinators/commit", for_operators(self.commit_set), body_bytes=SUBMISSION_BYTES),
            HttpRoute("DELETE", "/v1/coordinators/{coordinator_id}", for_operators(self.remove)),
        )

    async def list_replicas(self, _request: Request) -> ReplicaList:
        found = await in_library(replicas.list_replicas, self._at.database)
        return ReplicaList(self._at.coordinator_id, tuple(found))

    async def standings(self, request: Request) -> ReplicaStandings:
        """What each of them has said last, and what is wrong. While the database is away, what this one knows.

        `within`: where the cluster was exported, how many seconds ago a node has asked here that is named.
        """
        at = self._at
        try:
            await at.seen.write()  # who has asked in the last minute
            within_s = request.query_integer("within", int(moving.ASKED_WITHIN_S), 1, MAX_INTEGER)
            named = (at.database, at.standstill.history, at.coordinator_id)
            standings = await in_library(partial(_standings, *named, within_s=within_s, now=at.now()))
            return replace(standings, former_keys=await in_library(_former_keys, at))
        except SQLAlchemyError as error:
            said = filter(None, (f"the database does not answer: {line_of(error)}", at.absence.words))
            return _own_standing(at.coordinator_id, "; ".join(said), at.now())

    async def remove(self, request: Request) -> RemovedReplica:
        at, name = self._at, parameter(request, "coordinator_id", is_id)
        removed = partial(replicas.remove, answering=at.coordinator_id, actor=request.peer.name, now=at.now())
        await in_database(removed, at.database, name)
        return RemovedReplica(name)

    async def draft_set(self, request: Request) -> DraftedRequest:
        """Nothing is changed by asking; what is signed comes back by POST /v1/coordinators/commit."""
        at, asked = self._at, await message_of(request, SetDraftRequest)
        if fault := at.publisher.clock_fault():  # root keys sign no date of a clock that has just leapt ahead
            raise Refused(Code.CLOCK_JUMPED, fault.partition(": ")[2])
        key = PublicKey(asked.algorithm, asked.public_key)
        wanted = partial(
            coordinator_sets.draft,
            answering=at.coordinator_id,
            more=SetAdditions(owners=asked.seed_share_owners),
            despite_reports=asked.despite_reports,
        )
        made = await in_library(wanted, at.database, asked.coordinators, key, at.settings, at.now())
        return DraftedRequest(made.about, tuple(made.changes()), made.to_text())

    async def commit_set(self, request: Request) -> CommittedSet:
        """From then on this coordinator signs with the mesh key as well: no reload is needed here."""
        at, asked = self._at, await message_of(request, SetSubmission)
        signed = await in_library(coordinator_set.read, asked.set)
        keys = await in_library(_config_keys, at)
        commit = partial(coordinator_sets.commit, despite_reports=asked.despite_reports)
        held = [key.key_id for key in keys]
        await in_database(commit, at.database, signed, held, actor=request.peer.name, now=at.now())
        was_without_keys = bool(at.standstill.without_keys or at.standstill.history)
        async with at.standstill.reading:
            at.publisher.sign_with(keys)
            at.standstill.reason = await in_library(restored_backup.reason, at.database, at.standstill.behind)
            at.publisher.reconsider()
        if was_without_keys:
            await _come_back(at)
        elif at.peers.ask is not None:  # whoever is named from now on is let in at once, not after the next look
            await at.peers.ask()
        number, manifest = await in_library(history.newest_manifest, at.database)
        return CommittedSet(
            tuple(signed.coordinators), signed.mesh_key, manifest, number, signed.envelope.config_version
        )


async def _come_back(at: Coordinator) -> None:
    """From recovery mode, by a set: a certificate that nodes believe, and an entry that says which it is."""
    if at.peers.ask is not None:
        await at.peers.ask()
    if at.peers.take_up is not None and not at.standstill.uncertified:
        await at.peers.take_up()


def _config_keys(at: Coordinator) -> tuple[SigningKey, ...]:
    """As they lie there now: the mesh key has come since the last reload."""
    try:
        return at.secrets.config_keys()
    except UnusableKeyError as error:
        raise Refused(Code.BAD_KEY, str(error), remedy="put it right, and repeat") from None


def _own_standing(coordinator_id: str, fault: str, now: float) -> ReplicaStandings:
    """Of one that knows of no other."""
    own = ReplicaStanding(coordinator_id, "", replica_reports.NOT_READY, (fault,), now, None, VERSION, 0, 0, "", "")
    unknown = "unknown: the database does not answer"
    return ReplicaStandings(
        answering=coordinator_id, now=now, history=unknown, newest=0, manifest="", coordinators=(own,)
    )


def _former_keys(at: Coordinator) -> tuple[FormerKey, ...]:
    """Config keys that the mesh key has taken over from. They sign no less than it does until they are retired, for
    whoever has them: also the coordinator that was taken away, and whoever finds a disk that was lost.
    """
    try:
        keys = request_builder.rotation(at.database, at.settings, at.now()).keys
    except Refused:  # there is no trust bundle yet
        return ()
    return tuple(
        FormerKey(key.key_id, key.due)
        for key in keys
        if (key.purpose, key.action) == (CONFIG, rotation.RETIRE) and key.due is not None
    )


def _standings(database: Database, fault: str, answering: str, *, within_s: int, now: float) -> ReplicaStandings:
    newest, manifest = history.newest_manifest(database)
    judged = (replica_reports.judge(heard, now, newest) for heard in replica_reports.all_of(database))
    return ReplicaStandings(
        answering=answering,
        now=now,
        history=history.describe(database, fault),
        newest=newest,
        manifest=manifest,
        coordinators=tuple(standing for standing in judged if standing is not None),
        move=moving.read(database, within_s=within_s, now=now),
    )
