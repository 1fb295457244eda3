"""Until when the node's own certificate is good, and the CAs that its coordinators' certificates end at."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import trio

from agent.enrolment.identity import IdentityFile, renew_at
from agent.sources.authorities import believed_authorities
from agent.state.endings import LOOK_S, Sayings, endings
from agent.state.node import RunningNode
from snapshot.ending import Thing
from wire.certificate import BadCertificateError, Certificate, pem_chain_to_der
from wire.logs import log


@dataclass
class CertificateEnds:
    node: RunningNode
    identity: IdentityFile
    sayings: Sayings = field(default_factory=Sayings)
    certificates: tuple[Thing, ...] = ()  # as they were read last

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.look()
            await trio.sleep(LOOK_S)

    async def look(self) -> None:
        """Once: read, and said where it is time."""
        self.certificates = await self.node.threads.read(self._read)
        self.sayings.say(self.endings(), self.node.now())

    def endings(self) -> Sequence[Thing]:
        """What ends first, first: beside the certificates, the trust bundle as it is held now."""
        return endings(self.node.holdings.bundle, self.certificates)

    def _read(self) -> tuple[Thing, ...]:
        """What cannot be read is told by who needs it (joining.py, renewal.py), and left out here."""
        found: list[Thing] = []
        for read in (self._own, self._authorities):
            try:
                found += read()
            except (BadCertificateError, OSError) as error:
                log.warning("certificate not read", detail=str(error))
        return tuple(found)

    def _own(self) -> Iterator[Thing]:
        pair = self.identity.present()
        if pair is None:
            return
        certificate = Certificate.read(pair.der)
        yield Thing(
            "node_certificate",
            self.node.settings.node.node_id,
            certificate.not_before,
            certificate.not_after,
            "no coordinator answers this node any more; it has to join anew",
            "it renews itself: journalctl -u holdfast-agent says why it did not",
            renews_from=renew_at(pair, self.node.settings.node),
        )

    def _authorities(self) -> Iterator[Thing]:
        """Those that are believed: of the signed list, where there is one; else of the files."""
        believed = believed_authorities(self.node)
        for der in believed.ders:
            yield _authority(der, "the cluster's operator exchanges it: holdfastctl coordinators ca begin")
        if not believed.with_file:
            return
        for file in self._files():
            for der in pem_chain_to_der(file.read_bytes()):
                yield _authority(der, f"put the new CA beside it into {file}")

    def _files(self) -> list[Path]:
        settings = self.node.settings
        files = [settings.coordinator.ca_file] if settings.coordinator else []
        files += [entry.ca_file for entry in settings.manual or () if entry.ca_file is not None]
        return list(dict.fromkeys(files))


def _authority(der: bytes, remedy: str) -> Thing:
    certificate = Certificate.read(der)
    return Thing(
        "ca_certificate",
        certificate.fingerprint,
        certificate.not_before,
        certificate.not_after,
        "no coordinator's certificate of it is believed",
        remedy,
    )
