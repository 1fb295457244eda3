"""What this coordinator has of the cluster's secrets: the seed and config keys, the mesh key among them (rules H4).

    on the disk     what another coordinator or an owner has given: sealed to this machine, or 0600 (sealing.py)
    in memory       the same where `keep_secrets` is off: a restart is recovery mode, and it is asked for again
    beside it       what an operator has put into the keys' directory, or the service manager gives

Files of an operator are read in any case, and never taken away here: a coordinator that is alone would not come back.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from coordinator.base.refusal import Code, Refused
from coordinator.keys import keystore, sealing
from coordinator.keys import seed as seeds
from coordinator.keys.acting import as_owner_of
from coordinator.keys.atomic_files import replace_file
from coordinator.keys.seed import Seed
from coordinator.keys.signing_key import SigningKey
from snapshot.bundle import CONFIG
from wire.logs import log


@dataclass
class OwnSecrets:
    """`directory`: of the keys. No text of it shows a secret."""

    directory: Path
    environment: Mapping[str, str] = field(repr=False)
    is_kept: bool = True
    _seed: Seed | None = field(default=None, init=False, repr=False)
    _keys: dict[str, SigningKey] = field(default_factory=dict, init=False, repr=False)

    def seed(self) -> Seed | None:
        return self._seed or seeds.load(self.directory, self.environment)

    def config_keys(self) -> tuple[SigningKey, ...]:
        """As they lie there now, and those in memory."""
        lying = keystore.config_keys(self.directory, self.environment)
        return tuple({**{key.key_id: key for key in lying}, **self._keys}.values())

    def keep_seed(self, seed: Seed) -> None:
        """Refused where another one is here: nothing is written over."""
        held = self.seed()
        if held is not None and held != seed:
            remedy = f"move {self.directory / seeds.FILE} away, and restart"
            raise Refused(Code.UNTRUSTED_HISTORY, "another seed lies here than the history's", remedy=remedy)
        if not self.is_kept:
            self._seed = seed
        elif held is None:
            self._write(seeds.FILE, seed.to_bytes())

    def keep_key(self, key: SigningKey) -> None:
        """Each file is there whole or not at all, or the next attempt would find a short one in its way."""
        name = keystore.file_name(CONFIG, key)
        place = self.directory / name
        if not self.is_kept:
            self._keys[key.key_id] = key
        elif not place.exists() and sealing.find(place) is None:
            self._write(name, key.to_pem())

    def _write(self, name: str, data: bytes) -> None:
        with as_owner_of(self.directory):
            keystore.own_directory(self.directory)
        path = self.directory / name
        if self.environment.get("NOTIFY_SOCKET"):  # a service: what is run by hand may be run on another machine next
            try:
                replace_file(sealing.sealed_form(path), sealing.seal(name, data))
            except sealing.SealError as error:
                log.warning("a secret is not sealed, but in a file of mode 0600", file=str(path), reason=str(error))
            else:
                return
        replace_file(path, data)
