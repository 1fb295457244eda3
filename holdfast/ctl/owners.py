"""Owners of shares of the seed: `holdfastctl coordinators owner-key`, `shares` and `recover` (rules H4, H39, H51).

An owner is a person who can bring the cluster's seed back when no coordinator has it any more.
"""

from collections.abc import Sequence
from pathlib import Path

import click

from coordinator.base.refusal import Code, Refused
from coordinator.keys import atomic_files, keystore, owner_key, seed_recovery, seed_share, signing_key
from coordinator.keys.owner_key import OwnerKey, OwnerPublic
from coordinator.keys.seed_recovery import RecoveryPlace
from coordinator.keys.seed_share import SeedShare
from coordinator.keys.signing_key import SigningKey, UnusableKeyError
from coordinator.trust import coordinator_set
from holdfast.ctl.signing import Signing, ask_passphrase, bundle_options, describe, finish, passphrase_option
from holdfast.ctl.socket import CoordinatorClient, asks_the_coordinator, confirm, says_what_is_wrong
from holdfast.ctl.trust import in_json, new_passphrase
from holdfast.terminal.shown import say, say_json
from snapshot.identifiers import is_id
from wire.operators.trust_answers import DraftedRequest, RecoveryStanding, SeedShares
from wire.operators.trust_messages import SeedRecovery, SeedSharesRequest

PUBLIC, PRIVATE = ".pub", ".key"


@click.command("owner-key")
@click.option("--out", type=click.Path(path_type=Path), required=True,
              help="The private key, as alice.key; the public half lies beside it, as alice.pub.")  # fmt: skip
@click.option("--owner", help="The owner's id.  [default: the file's name]")
@click.option("--encrypt", is_flag=True, help="Under a passphrase, from --passphrase-file or asked for.")
@passphrase_option
@in_json
@says_what_is_wrong
def owner_key_(out: Path, owner: str | None, encrypt: bool, passphrase_files: tuple[Path, ...], as_json: bool) -> None:
    """Make the key pair of an owner of a share of the seed, on the owner's own machine: the private half stays there.

    The public half goes to whoever makes the cluster (init --seed-share-owner) or adds owners to it (coordinators set).
    Where the private half is there alone, as after an interruption, its public half is written again.
    """
    name, public, is_new = owner or out.stem, out.with_suffix(PUBLIC), not out.exists()
    if not is_id(name):
        raise Refused(Code.BAD_REQUEST, f"{name!r} is no id of an owner", remedy="use a-z 0-9 . _ -: --owner alice")
    if out.suffix == PUBLIC or public.exists():
        detail = f"{public} is there already, or is the private key's own name"
        raise Refused(Code.CONFLICT, detail, remedy="move it away first")
    made = _new_key(out, encrypt, passphrase_files) if is_new else _key_there(out, encrypt, passphrase_files)
    atomic_files.replace_file(public, made.public_file(name), 0o644)
    if as_json:
        say_json({"owner": name, "private": str(out), "public": str(public), "key": made.key})
        return
    there = "" if is_new else ", there already"
    say(f"owner {name}", f"  private  {out}{there}", f"  public   {public}", f"  key      {made.key}")
    say("Keep the private half here, and a copy where you keep other such things: nobody can make it again.")


@click.command()
@click.option("--to", type=click.Path(path_type=Path), required=True, help="A directory, made if it is not there.")
@asks_the_coordinator
def shares(asked: CoordinatorClient, to: Path) -> None:
    """Write a share of the seed for each owner that the manifest names, sealed to the owner's key.

    For owners that were added by a set, and for a share that was lost. A share is no secret: it is of use with the
    owner's key alone.
    """
    answer = asked.post(SeedShares, "coordinators", "shares", body=SeedSharesRequest())
    found = [_read_share(owner, text) for owner, text in answer.shares.items()]
    to.mkdir(parents=True, exist_ok=True)
    paths = {}
    for share in found:
        path = to / seed_share.file_name(share.owner)
        atomic_files.replace_file(path, share.to_bytes())
        paths[share.owner] = str(path)
    asked.say({"shares": paths}, *(f"{owner}  {path}" for owner, path in paths.items()))


def _read_share(owner: str, text: str) -> SeedShare:
    """What an answer gives as somebody's. Its file is named by the id in it, whose form is known: an answer names no
    place on this machine.
    """
    found = seed_share.parse(text.encode(), name="a share that the coordinator gave")
    if found.owner != owner:
        detail = f"the coordinator gave as the share of {owner} one of {found.owner}"
        raise Refused(Code.BAD_SHARE, detail, remedy="no file was written: look who answers there; ask another one")
    return found


@click.command()
@click.option("--share", type=click.Path(path_type=Path, exists=True, dir_okay=False), required=True,
              help="The owner's share of the seed.")  # fmt: skip
@click.option("--key", type=click.Path(path_type=Path, exists=True, dir_okay=False), required=True,
              help="The owner's private key, which opens it.")  # fmt: skip
@click.option("--force", is_flag=True, help="Though other coordinators may be ready, or are not known.")
@bundle_options
@asks_the_coordinator
def recover(asked: CoordinatorClient, share: Path, key: Path, force: bool, signing: Signing) -> None:
    """Bring the seed back where no coordinator has it any more: the share of one owner, whichever, is enough.

    At a coordinator that runs and has lost it, over the cluster's database. The others are asked first. It takes the
    seed up, makes a new mesh key, and asks root keys for a set of the same coordinators that raises the epoch. What
    comes back signed goes to `coordinators commit` there, and then it is ready. The others get the secrets from it.
    """
    found = seed_share.parse(_read(share, seed_share.MOST_BYTES), name=str(share))
    at = asked.get(RecoveryStanding, "coordinators", "recover")
    _fits(found, at)
    confirm(f"Give the seed of {at.cluster_id} to {at.coordinator_id}?", yes=signing.yes)
    own = OwnerKey.of(_open_key(key, signing.passphrase_files))
    place = RecoveryPlace(at.cluster_id, at.coordinator_id, at.manifest)
    brought = seed_recovery.sign(own, found.owner, place, found.open(own))
    body = SeedRecovery(**vars(brought), force=force, despite_reports=signing.despite_reports)
    request = coordinator_set.read(asked.post(DraftedRequest, "coordinators", "recover", body=body).request)
    if not asked.as_json:
        describe(request)
    finish(asked, signing, request)


def _fits(found: SeedShare, at: RecoveryStanding) -> None:
    """What can be said before the key is asked for."""
    if found.cluster_id != at.cluster_id:
        detail = f"the share is of cluster {found.cluster_id}, and this coordinator of {at.cluster_id}"
        raise Refused(Code.WRONG_CLUSTER, detail, remedy="bring the share of this cluster")
    if not at.lacks:
        raise Refused(Code.CONFLICT, "nothing is missing there: that coordinator has the seed and the mesh key")
    if found.owner not in at.owners:
        named = ", ".join(at.owners) or "nobody"
        detail = f"{found.owner} is no owner of the seed: the manifest names {named}"
        raise Refused(Code.NOT_AN_OWNER, detail, remedy="bring the share of one of these" if at.owners else "")


def _new_key(path: Path, encrypt: bool, passphrase_files: tuple[Path, ...]) -> OwnerKey:
    made = OwnerKey.generate()
    signing_key.write_file(path, made.signing, new_passphrase(encrypt, passphrase_files))
    return made


def _key_there(path: Path, encrypt: bool, passphrase_files: tuple[Path, ...]) -> OwnerKey:
    """Of a file whose public half was not written any more, or is lost."""
    if encrypt and not keystore.is_encrypted(path):
        detail = f"{path} is there already, and is not encrypted"
        raise Refused(Code.CONFLICT, detail, remedy="move it away first, or leave --encrypt")
    try:
        return OwnerKey.of(_open_key(path, passphrase_files))
    except UnusableKeyError as error:
        raise Refused(Code.BAD_KEY, str(error), remedy="or, if it was cut off, move it away and repeat") from None


def _open_key(path: Path, passphrase_files: Sequence[Path]) -> SigningKey:
    """With whichever passphrase opens it: the files may be for root keys as well."""
    passphrases = [keystore.read_passphrase(file) for file in passphrase_files]
    if keystore.is_encrypted(path) and not passphrases:
        passphrases.append(ask_passphrase(f"Passphrase of {path}"))
    (found,) = keystore.find([path], passphrases)
    return found


def read_owners(files: Sequence[Path]) -> tuple[OwnerPublic, ...]:
    """The public halves in these files."""
    return tuple(owner_key.parse_public(_read(path, owner_key.MOST_BYTES), name=str(path)) for path in files)


def owners_by_name(files: Sequence[Path]) -> dict[str, str]:
    """The same, as a set of coordinators has them. Refused for a name that two have."""
    found = read_owners(files)
    if len({owner.owner for owner in found}) != len(found):
        raise Refused(Code.BAD_REQUEST, "an owner of a share is named twice", remedy="give each a name of its own")
    return {owner.owner: owner.key for owner in found}


def _read(path: Path, most: int) -> bytes:
    """No more than such a file may hold, and one byte."""
    with path.open("rb") as file:
        return file.read(most + 1)
