"""Owners of shares of the seed: `holdfastctl coordinators owner-key` and `shares` (rules H4, H39).

An owner is a person who can bring the cluster's seed back when no coordinator has it any more.
"""

from collections.abc import Sequence
from pathlib import Path

import click

from coordinator.keys import owner_key, seed_share, signing_key
from coordinator.keys.owner_key import OwnerKey, OwnerPublic
from holdfast.ctl.signing import passphrase_option
from holdfast.ctl.socket import REFUSED, CoordinatorClient, Failed, asks_the_coordinator, says_what_is_wrong
from holdfast.ctl.trust import in_json, new_passphrase
from holdfast.terminal.shown import say, say_json
from snapshot.identifiers import is_id
from wire.operators.trust_answers import SeedShares
from wire.operators.trust_messages import SeedSharesRequest

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
    """
    name, public = owner or out.stem, out.with_suffix(PUBLIC)
    if not is_id(name):
        raise Failed(f"{name!r} is no id of an owner; use a-z 0-9 . _ -: --owner alice", REFUSED)
    if out.suffix == PUBLIC or public.exists():
        raise Failed(f"{public} is there already, or is the private key's own name; move it away first", REFUSED)
    made = OwnerKey.generate()
    signing_key.write_file(out, made.signing, new_passphrase(encrypt, passphrase_files))
    public.write_bytes(made.public_file(name))
    if as_json:
        say_json({"owner": name, "private": str(out), "public": str(public), "key": made.key})
        return
    say(f"owner {name}", f"  private  {out}", f"  public   {public}", f"  key      {made.key}")
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
    to.mkdir(parents=True, exist_ok=True)
    paths = {}
    for owner, text in answer.shares.items():
        seed_share.parse(text.encode(), name=f"the share of {owner}")
        path = to / seed_share.file_name(owner)
        path.write_text(text)
        paths[owner] = str(path)
    asked.say({"shares": paths}, *(f"{owner}  {path}" for owner, path in paths.items()))


def read_owners(files: Sequence[Path]) -> tuple[OwnerPublic, ...]:
    """The public halves in these files."""
    return tuple(owner_key.parse_public(_read(path, owner_key.MOST_BYTES), name=str(path)) for path in files)


def owners_by_name(files: Sequence[Path]) -> dict[str, str]:
    """The same, as a set of coordinators has them. Refused for a name that two have."""
    found = read_owners(files)
    if len({owner.owner for owner in found}) != len(found):
        raise Failed("an owner of a share is named twice; give each a name of its own", REFUSED)
    return {owner.owner: owner.key for owner in found}


def _read(path: Path, most: int) -> bytes:
    """No more than such a file may hold, and one byte."""
    with path.open("rb") as file:
        return file.read(most + 1)
