"""`holdfastctl coordinators identity`: who a coordinator is going to be, before any cluster is on its machine.

The key stays here, beside where config keys will lie; the certificate is what the coordinator that a cluster comes from
encrypts it to (setup/export.py). Asked again, it is shown again.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from coordinator.base.refusal import Code, Refused
from coordinator.keys import atomic_files, identity, keystore
from coordinator.keys import seed as seeds
from coordinator.keys.atomic_files import plain_file, replace_file
from coordinator.setup.cluster_files import keys_directory
from snapshot.bundle import CONFIG
from snapshot.identifiers import is_id
from wire.certificate import Certificate


@dataclass(frozen=True)
class OwnIdentity:
    """`certificate`: PEM."""

    coordinator_id: str
    certificate_sha256: str
    certificate: bytes
    file: Path
    is_new: bool


def make(state: Path, coordinator_id: str, *, anew: bool, now: float) -> OwnIdentity:
    """`conflict` where one of another name is here; `already_initialised` where another one would take the place of the
    one of a coordinator that works.
    """
    if not is_id(coordinator_id):
        raise Refused(Code.BAD_REQUEST, f"{coordinator_id!r} is no id", remedy="use a-z 0-9 . _ -")
    keys = keys_directory(state)
    file, found = keys / identity.FILE, identity.load(keys, {})
    if found is not None and anew:
        _must_be_no_coordinator(keys)
    if found is not None and not anew:
        certificate = Certificate.read(found.der)
        if coordinator_id not in certificate.names:
            detail = f"{file} is the identity of {', '.join(certificate.names)}"
            raise Refused(Code.CONFLICT, detail, remedy="name that one; or, where it serves for nothing: --anew")
        return OwnIdentity(coordinator_id, certificate.fingerprint, found.certificate_pem, file, is_new=False)
    own = identity.generate(coordinator_id, now)
    with atomic_files.directories(state, []):
        if found is not None:
            replace_file(file, identity.to_bytes(own))
        else:
            note = atomic_files.note_in(state, None, "identity.incomplete")
            atomic_files.clear_up(note, file.exists)
            with atomic_files.together(note, [(file, plain_file(identity.to_bytes(own)))], file.exists):
                pass
    return OwnIdentity(coordinator_id, identity.pin_of(own), own.certificate_pem, file, is_new=True)


def _must_be_no_coordinator(keys: Path) -> None:
    if keystore.files(keys, CONFIG) or seeds.load(keys, os.environ) is not None:
        remedy = "holdfastctl coordinators pin --anew gives a coordinator another identity"
        raise Refused(Code.ALREADY_INITIALISED, f"{keys} holds the keys of a cluster", remedy=remedy)
