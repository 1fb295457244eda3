"""From a wish to a bundle or a recovery that root keys have signed: here and now, or by way of another machine.

Where the root keys are at hand (`--root-key`), the request is signed and brought in at once. Otherwise it is written to
a file, which goes to where the keys are (`holdfastctl trust sign`) and comes back (`holdfastctl trust import`).
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path

import click

from coordinator.base.refusal import Code, Refused
from coordinator.keys import keystore
from coordinator.keys.signing_key import SigningKey
from coordinator.trust import coordinator_set, signing_requests
from coordinator.trust.coordinator_set import CoordinatorSet
from coordinator.trust.signing_requests import SigningRequest
from holdfast.ctl.socket import UNCONFIRMED, CoordinatorClient, Failed, confirm
from holdfast.terminal.shown import say, shown
from snapshot.bundle import CONFIG
from snapshot.envelope import RECOVERY
from wire.operators.trust_answers import CommittedSet, DraftedRequest, TakenBundle, TakenRecovery
from wire.operators.trust_messages import (
    BundleDraftRequest,
    BundleSubmission,
    RecoveryDraftRequest,
    RecoverySubmission,
    SetSubmission,
    WishMessage,
)

FILE_SUFFIX = ".request.json"
IMPORT, COMMIT = "holdfastctl trust import", "holdfastctl coordinators commit"

_HOW_OTHERS_GET_IT = (
    "  The others fetch it by themselves, within half a minute; until then they are not ready:",
    "    holdfastctl coordinators status",
    "  One without [listen] coordinators in its configuration fetches nothing: set that there and here, and restart;",
    "  or bring that key's file, config-*.pem, from the keys directory here into its own, and reload it. A sealed",
    "  file, config-*.pem.cred, opens on no other machine: it can be fetched alone.",
)

Signable = SigningRequest | CoordinatorSet


@dataclass(frozen=True)
class Signing:
    """How a request is to be signed: `keys` are key files or directories of them. `despite_reports`: members that
    report bundles which the coordinator does not know are not believed (bundle_conflicts.py).
    """

    keys: tuple[Path, ...]
    passphrase_files: tuple[Path, ...]
    request: Path | None
    yes: bool
    despite_reports: bool = False


def bundle_options(function: Callable[..., None]) -> Callable[..., None]:
    """The same of a command that makes a trust bundle."""
    return click.option(
        "--despite-reports",
        is_flag=True,
        help="After a restored backup: go on although members report later bundles, whose reports are false.",
    )(root_key_options(function))


def root_key_options(function: Callable[..., None]) -> Callable[..., None]:
    """Options of a command that needs root signatures; its body is given a `Signing`."""

    @click.option(
        "--root-key",
        "keys",
        type=click.Path(path_type=Path, exists=True),
        multiple=True,
        help="A root key file, or a directory of them; again for each further one.",
    )
    @passphrase_option
    @click.option(
        "--request",
        type=click.Path(path_type=Path),
        help="Where the request is written when signatures are still missing.",
    )
    @click.option("--yes", is_flag=True, help="Do not ask.")
    @wraps(function)
    def wrapper(
        *arguments: object,
        keys: tuple[Path, ...],
        passphrase_files: tuple[Path, ...],
        request: Path | None,
        yes: bool,
        despite_reports: bool = False,
        **given: object,
    ) -> None:
        function(*arguments, signing=Signing(keys, passphrase_files, request, yes, despite_reports), **given)

    return wrapper


def passphrase_option(function: Callable[..., None]) -> Callable[..., None]:
    """The option `--passphrase-file` for a command."""
    return click.option(
        "--passphrase-file",
        "passphrase_files",
        type=click.Path(path_type=Path),
        multiple=True,
        help="A file (0600) whose first line opens an encrypted key. Without one it is asked for.",
    )(function)


def wishes(*said: WishMessage) -> BundleDraftRequest:
    """What is asked of the next trust bundle."""
    return BundleDraftRequest(said)


def carry_out(asked: CoordinatorClient, signing: Signing, body: BundleDraftRequest | RecoveryDraftRequest) -> None:
    """Ask the coordinator for a request, and have it signed."""
    finish(asked, signing, draft(asked, signing, body))


def draft(
    asked: CoordinatorClient, signing: Signing, body: BundleDraftRequest | RecoveryDraftRequest
) -> SigningRequest:
    """The request, as the coordinator makes it from what stands in its database. Nothing is changed by it."""
    if isinstance(body, BundleDraftRequest):
        body = replace(body, despite_reports=signing.despite_reports)
        answer = asked.post(DraftedRequest, "trust", "requests", body=body)
    else:
        answer = asked.post(DraftedRequest, "recoveries", "requests", body=body)
    request = signing_requests.read(answer.request)
    if not asked.as_json:
        describe(request)
        for report in answer.reports:
            say(f"warning: {report.node_id} reports trust bundle {report.version}, unproven", err=True)
    return request


def finish(asked: CoordinatorClient, signing: Signing, request: Signable) -> None:
    """Signed by the keys at hand and brought in; or written to a file, where signatures are missing."""
    if signing.keys:
        confirm(f"Sign {request.about}?", yes=signing.yes)
        request = sign(request, signing.keys, signing.passphrase_files)
    if request.is_complete():
        bring_in(asked, request, despite_reports=signing.despite_reports)
    else:
        write_away(asked, signing, request, COMMIT if isinstance(request, CoordinatorSet) else IMPORT)


def finish_with_key(
    asked: CoordinatorClient, signing: Signing, request: Signable, purpose: str, key: SigningKey, directory: Path
) -> None:
    """The same for a request that announces a new key: its private half is kept first, since a bundle must never name
    a key that nobody has. A config key is kept where the coordinator finds it: on its machine.
    """
    if asked.is_afar and purpose == CONFIG:
        remedy = "run this there, or make the key with `trust new-key` and give rotate add its --public-key"
        raise Refused(Code.LOCAL_ONLY, "a config key is made where the coordinator keeps it", remedy=remedy)
    path = keystore.keep(directory, purpose, key)
    try:
        finish(asked, signing, request)
    except Failed as failed:
        if failed.exit_code == UNCONFIRMED:
            path.unlink()
        raise
    if not asked.as_json:
        say(f"the new key is {path}")
        if purpose == CONFIG and isinstance(request, SigningRequest):
            say("  once the bundle is in:    systemctl reload holdfast-coordinator")


def sign(request: Signable, keys: Sequence[Path], passphrase_files: Sequence[Path]) -> Signable:
    """With the signature of every key that is given and asked; Failed where none is."""
    passphrases = [keystore.read_passphrase(path) for path in passphrase_files]
    found = [key for path in keys for key in _open(path, passphrases)]
    wanted = [key for key in found if key.key_id in request.envelope.signers]
    if not wanted:
        named = ", ".join(key.key_id for key in found) or "no root key is there"
        asked = ", ".join(request.envelope.signers)
        raise Refused(Code.BAD_KEY, f"none of these keys is asked to sign it: {named}", remedy=f"use one of {asked}")
    for key in wanted:
        request = request.with_signature(key)
    return request


def bring_in(asked: CoordinatorClient, request: Signable, *, despite_reports: bool = False) -> None:
    """Hand the signed document to the coordinator, which judges it as a node would."""
    if isinstance(request, CoordinatorSet):
        _commit(asked, request, despite_reports=despite_reports)
        return
    document = request.document().to_bytes()
    if request.envelope.kind == RECOVERY:
        taken: object = asked.post(TakenRecovery, "recoveries", body=RecoverySubmission(document))
    else:
        taken = asked.post(TakenBundle, "trust", body=BundleSubmission(document, despite_reports))
    asked.say(taken, f"done: {request.about}")


def _commit(asked: CoordinatorClient, signed: CoordinatorSet, *, despite_reports: bool) -> None:
    taken = asked.post(CommittedSet, "coordinators", "commit", body=SetSubmission(signed.to_text(), despite_reports))
    asked.say(
        taken,
        f"done: {', '.join(taken.coordinators)}, by the manifest {taken.manifest} of link {taken.number}",
        f"  mesh key  {taken.mesh_key}: signs here from now on",
        *(_HOW_OTHERS_GET_IT if len(taken.coordinators) > 1 else ()),
    )


def describe(request: Signable, *, err: bool = False) -> None:
    say(request.about, err=err)
    for line in request.changes():
        say(f"  {line}", err=err)


def missing(request: Signable) -> str:
    """For people: how many signatures a request still needs, and of whose keys."""
    need = request.missing()
    if not (need.of_present or need.of_next):
        return "it has all signatures"
    counts = [(need.of_present, "the present bundle"), (need.of_next, "the next bundle")]
    return "it still needs " + " and ".join(f"{count} of {whose}'s root keys" for count, whose in counts if count)


def write_request(path: Path, request: Signable) -> None:
    """A request holds no secret, but it is not written over another one's."""
    if path.exists() and read_signable(path).envelope != request.envelope:
        raise Refused(Code.CONFLICT, f"{path} holds another request", remedy="name another file with --request")
    path.write_text(request.to_text())


def read_signable(path: Path) -> Signable:
    """Whatever root keys may be asked to sign."""
    text = path.read_text(encoding="utf-8", errors="replace")
    return coordinator_set.read(text) if coordinator_set.is_one(text) else signing_requests.read(text)


def read_request(path: Path) -> SigningRequest:
    found = read_signable(path)
    if isinstance(found, CoordinatorSet):
        remedy = f"bring it back with `{COMMIT} {path}`"
        raise Refused(Code.BAD_REQUEST, f"{path} is a set of coordinators", remedy=remedy)
    return found


def read_set(path: Path) -> CoordinatorSet:
    found = read_signable(path)
    if isinstance(found, SigningRequest):
        remedy = f"bring it back with `{IMPORT} {path}`"
        raise Refused(Code.BAD_REQUEST, f"{path} is no set of coordinators", remedy=remedy)
    return found


def ask_passphrase(question: str, *, twice: bool = False) -> bytes:
    """Of the person at the terminal; else the next line of standard input."""
    if sys.stdin.isatty():
        return str(click.prompt(shown(question), hide_input=True, confirmation_prompt=twice, err=True)).encode()
    line = sys.stdin.readline().rstrip("\n")
    if not line:
        raise Failed("a passphrase is needed; give --passphrase-file where nobody can be asked", UNCONFIRMED)
    return line.encode()


def ca_passphrase(directory: Path, files: Sequence[Path]) -> bytes | None:
    """Of the CA's key that lies there; None where none is needed."""
    key = directory / "ca-key.pem"
    if not keystore.is_encrypted(key):
        return None
    return keystore.read_passphrase(files[0]) if files else ask_passphrase(f"Passphrase of {key}")


def _open(place: Path, passphrases: list[bytes]) -> list[SigningKey]:
    paths = keystore.files(place, "root") if place.is_dir() else [place]
    for path in paths:
        if keystore.is_encrypted(path) and not passphrases:
            passphrases.append(ask_passphrase(f"Passphrase of {path}"))
    return keystore.find(paths, passphrases)


def write_away(asked: CoordinatorClient, signing: Signing, request: Signable, back_here: str = IMPORT) -> None:
    """`back_here`: the command that takes the file once it is signed, up to its name."""
    path = signing.request or Path(f"{request.envelope.snapshot_id[:12]}{FILE_SUFFIX}")
    write_request(path, request)
    answer = {"about": request.about, "changes": request.changes(), "request": str(path), "missing": missing(request)}
    asked.say(
        answer,
        f"written to {path}; {missing(request)}",
        f"  where the root keys are:  holdfastctl trust sign {path.name} --root-key KEY",
        f"  and back here:            {back_here} {path.name}",
    )
