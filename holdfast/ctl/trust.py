"""`holdfastctl trust`: trust bundles, and signing them on another machine."""

from collections.abc import Sequence
from pathlib import Path

import click
from cryptography.hazmat.primitives import serialization

from coordinator.base.refusal import Code, Refused
from coordinator.keys import keystore
from coordinator.keys.signing_key import SigningKey, UnusableKeyError
from coordinator.trust import signing_requests
from holdfast.ctl import output
from holdfast.ctl.signing import (
    Signable,
    Signing,
    ask_passphrase,
    bring_in,
    bundle_options,
    carry_out,
    describe,
    missing,
    passphrase_option,
    read_request,
    read_signable,
    sign,
    wishes,
    write_request,
)
from holdfast.ctl.socket import CoordinatorClient, asks_the_coordinator, confirm, says_what_is_wrong
from holdfast.terminal.shown import say, say_json
from snapshot.bundle import CONFIG, ROOT
from snapshot.container import SUFFIX, ChunkParts
from snapshot.signature import ALGORITHMS, ED25519
from wire.operators.operator_answers import JoinFacts
from wire.operators.trust_answers import BundleDocuments, KeyStep, Rotation, TakenBundle
from wire.operators.trust_messages import BundleSubmission, RestoreWish

in_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")


@click.group()
def trust() -> None:
    """The trust bundle: what it says, its renewal, and signing with root keys that lie elsewhere."""


@trust.command()
@asks_the_coordinator
def show(asked: CoordinatorClient) -> None:
    """The present trust bundle; and its root keys, for a node that took them on first use, or a further coordinator."""
    asked.show(asked.get(Rotation, "rotation"), render)
    if not asked.as_json:
        first = asked.get(JoinFacts, "invitation")  # of the first bundle, which is what nodes pin
        keys = " ".join(first.root_key_ids)
        say("", f"On a node of a first use: holdfast trust confirm --threshold {first.root_threshold} {keys}")
        named = " ".join(f"--root-key-id {key_id}" for key_id in first.root_key_ids)
        of = f"--cluster {first.cluster_id} --root-threshold {first.root_threshold} {named}"
        say(f"For a further coordinator: holdfastctl coordinators prepare NAME {of} --url URL --database URL")


@trust.command("export-request")
@click.option("--restore", nargs=2, multiple=True, metavar="CATEGORY VALUE", help="No longer revoke this.")
@bundle_options
@asks_the_coordinator
def export_request(asked: CoordinatorClient, restore: tuple[tuple[str, str], ...], signing: Signing) -> None:
    """The next bundle without another wish: a new lifetime, and what has been revoked meanwhile.

    A bundle is renewed at half of its lifetime. CATEGORY: node_ids, role_assignments, service_ids or endpoints.
    """
    carry_out(asked, signing, wishes(*(RestoreWish(category, value) for category, value in restore)))


@trust.command("sign")
@click.argument("request", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--root-key", "keys", type=click.Path(path_type=Path, exists=True), multiple=True, required=True,
              help="A root key file, or a directory of them.")  # fmt: skip
@passphrase_option
@click.option("--out", type=click.Path(path_type=Path), help="Where the signed request goes.  [default: in place]")
@click.option("--yes", is_flag=True, help="Do not ask.")
@in_json
@says_what_is_wrong
def sign_request(
    request: Path,
    keys: tuple[Path, ...],
    passphrase_files: tuple[Path, ...],
    out: Path | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Sign a request, on the machine where root keys are. It needs neither a coordinator nor a network."""
    asked_for = read_signable(request)
    describe(asked_for, err=as_json)
    confirm(f"Sign {asked_for.about}?", yes=yes)
    signed = sign(asked_for, keys, passphrase_files)
    write_request(out or request, signed)
    if as_json:
        say_json({"request": str(out or request), **_facts_of(signed)})
    else:
        say(f"signed: {out or request}; {missing(signed)}")


@trust.command("show-request")
@click.argument("request", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@in_json
@says_what_is_wrong
def show_request(request: Path, as_json: bool) -> None:
    """What signing a request would do, and which signatures it has. It needs no coordinator."""
    found = read_signable(request)
    if as_json:
        say_json({"request": str(request), **_facts_of(found)})
        return
    describe(found)
    for key_id in found.envelope.signers:
        say(f"  {'signed' if key_id in found.signatures else 'asked '}  {key_id}")
    say(missing(found))


def _facts_of(request: Signable) -> dict[str, object]:
    signed = {key_id: key_id in request.signatures for key_id in request.envelope.signers}
    return {"about": request.about, "changes": request.changes(), "signed": signed, "missing": missing(request)}


@trust.command("import")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--despite-reports", is_flag=True, help="Members that report other bundles of that number are wrong.")
@asks_the_coordinator
def import_files(asked: CoordinatorClient, files: tuple[Path, ...], despite_reports: bool) -> None:
    """Bring a signed request back, or bundles (.hfs) that a database from a backup does not know any more.

    Copies of a request that were signed on several machines are put together. Bundles are those of `trust export`; they
    go in by their versions.
    """
    bundles = [path for path in files if path.suffix == SUFFIX]
    if bundles and len(bundles) < len(files):
        detail = "requests and bundles are brought in one after the other"
        raise Refused(Code.BAD_REQUEST, detail, remedy="nothing was changed")
    if bundles:
        _bring_bundles(asked, bundles, despite_reports=despite_reports)
        return
    request = read_request(files[0])
    for path in files[1:]:
        request = request.merge(read_request(path))
    bring_in(asked, request, despite_reports=despite_reports)


def _bring_bundles(asked: CoordinatorClient, paths: Sequence[Path], *, despite_reports: bool) -> None:
    """Those that are known already are passed over; of the others each is judged as its successor's base."""
    found = _by_version(paths)
    held = _bundles_since(asked, min(found))
    for version in sorted(found.keys() & held.keys()):
        if _envelope(found[version]) != _envelope(held[version]):
            remedy = "nothing was changed: find out which of them the nodes hold"
            raise Refused(Code.CONFLICT, f"the coordinator holds another bundle {version}", remedy=remedy)
    new = sorted(found.keys() - held.keys())
    submissions = (BundleSubmission(found[version], despite_reports) for version in new)
    added = [asked.post(TakenBundle, "trust", body=submission).version for submission in submissions]
    asked.say({"added": added}, f"added: {', '.join(map(str, added)) or 'nothing: all are here already'}")


def _by_version(paths: Sequence[Path]) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    for path in paths:
        data = path.read_bytes()
        other = found.setdefault(_version_of(path, data), data)
        if _envelope(other) != _envelope(data):
            raise Refused(Code.CONFLICT, f"{path} is another bundle of the same number", remedy="nothing was changed")
    return found


def _bundles_since(asked: CoordinatorClient, version: int) -> dict[int, bytes]:
    """What the coordinator holds of this number and later ones."""
    held: dict[int, bytes] = {}
    while batch := asked.get(BundleDocuments, "trust", **{"from": max(held, default=version - 1)}).documents:
        held |= {signing_requests.bundle_of(data).version: data for data in batch}
    return held


def _envelope(data: bytes) -> bytes:
    """It holds the hash of the content, so it is the bundle; who has signed may differ from copy to copy."""
    return ChunkParts([data]).opening().envelope


def _version_of(path: Path, data: bytes) -> int:
    try:
        return signing_requests.bundle_of(data).version
    except Refused:
        detail = f"{path} is no trust bundle"
        raise Refused(Code.BAD_REQUEST, detail, remedy="use what `trust export` wrote") from None


@trust.command("new-key")
@click.option("--purpose", type=click.Choice([ROOT, CONFIG]), default=ROOT, show_default=True)
@click.option("--algorithm", type=click.Choice(ALGORITHMS), default=ED25519, show_default=True)
@click.option("--to", type=click.Path(path_type=Path), required=True, help="The directory that the key is put into.")
@click.option("--encrypt", is_flag=True, help="Under a passphrase, from --passphrase-file or asked for.")
@passphrase_option
@in_json
@says_what_is_wrong
def new_key(
    purpose: str, algorithm: str, to: Path, encrypt: bool, passphrase_files: tuple[Path, ...], as_json: bool
) -> None:
    """Make a key where it is to stay; its public half, beside it, goes to the coordinator (`rotate add`)."""
    path, key = made_key(purpose, to, new_passphrase(encrypt, passphrase_files), algorithm)
    public = path.with_suffix(".pub.pem")
    public.write_bytes(public_pem(key))
    if as_json:
        say_json({"key_id": key.key_id, "private": str(path), "public": str(public)})
    else:
        say(key.key_id, f"  private  {path}", f"  public   {public}")


@trust.command("export")
@click.option("--to", type=click.Path(path_type=Path), required=True, help="A directory, made if it is not there.")
@asks_the_coordinator
def export(asked: CoordinatorClient, to: Path) -> None:
    """All bundles as document files: to install the first one on a node, or for `holdfast verify`."""
    documents = asked.get(BundleDocuments, "trust").documents
    to.mkdir(parents=True, exist_ok=True)
    paths = []
    for data in documents:
        path = to / f"trust_bundle-{signing_requests.bundle_of(data).version}.hfs"
        path.write_bytes(data)
        paths.append(str(path))
    asked.say({"files": paths}, *paths)


def made_key(purpose: str, to: Path, passphrase: bytes | None, algorithm: str = ED25519) -> tuple[Path, SigningKey]:
    """A new private key in a file of its own."""
    key = keystore.new_key(algorithm)
    return keystore.keep(to, purpose, key, passphrase), key


def new_passphrase(encrypt: bool, files: tuple[Path, ...]) -> bytes | None:
    """The passphrase that a new key is to have, from a file or asked for twice; None for none."""
    if not (encrypt or files):
        return None
    if files:
        return keystore.read_passphrase(files[0])
    return ask_passphrase("New passphrase", twice=True)


def public_pem(key: SigningKey) -> bytes:
    return serialization.load_der_public_key(key.public_key).public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def read_public(path: Path) -> bytes:
    """SubjectPublicKeyInfo, DER, of a public key in PEM."""
    try:
        key = serialization.load_pem_public_key(path.read_bytes())
    except ValueError:
        raise UnusableKeyError(f"{path}: not a public key in PEM; `trust new-key` writes one") from None
    return key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


def render(answer: Rotation) -> None:
    """The bundle's facts, then its keys with what comes next for each."""
    output.facts(
        [
            ("version", answer.version),
            ("authority epoch", answer.authority_epoch),
            ("renew at", output.time(answer.renew_at)),
            ("expires at", output.time(answer.expires_at)),
            ("signatures needed", answer.thresholds),
            *((f"revoked {name}", values) for name, values in answer.revocations.items()),
        ]
    )
    rows = (
        (key.purpose, key.key_id, key.status, output.time(key.not_after), _next(key), key.why) for key in answer.keys
    )
    output.table(("purpose", "key", "status", "until", "next", "why"), rows, nothing="no keys")


def _next(key: KeyStep) -> str:
    return f"{key.action} {'now' if key.is_due else 'from ' + output.time(key.due)}"
