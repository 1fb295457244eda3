"""What an operator asks of the exchange of the coordinators' CA."""

import base64

from coordinator.keys import server_certificate
from tests.coordinator.daemon import refusal, running
from tests.coordinator.founding import Founded
from wire.certificate import fingerprint, make_authority, pem_to_der

CA = "/v1/coordinators/ca"


def encoded(der: bytes) -> str:
    return base64.b64encode(der).decode()


async def test_from_the_begin_to_the_end_over_a_reload(founded: Founded) -> None:
    """rules K15, L15; who joins now is given both"""
    following, present = make_authority("next", founded.now), pem_to_der((founded.folder / "ca.pem").read_bytes())
    async with running(founded) as at:
        told = await at.ask("GET", CA)
        assert (told["authorities"], told["unconfirmed"]) == ([], [])
        assert [each["authority"] for each in told["coordinators"]] == [fingerprint(present)]
        assert await refusal(at.ask("POST", f"{CA}/finish", {})) == "conflict"
        begun = await at.ask("POST", f"{CA}/begin", {"certificate": encoded(following.der)})
        assert {each["fingerprint"]: each["standing"] for each in begun["authorities"]} == {
            fingerprint(present): "current",
            fingerprint(following.der): "next",
        }
        assert (await at.ask("GET", "/v1/invitation"))["ca"].count("BEGIN CERTIFICATE") == 2
        assert await refusal(at.ask("POST", f"{CA}/finish", {"despite_unconfirmed": True})) == "ca_in_use"
        server_certificate.exchange(
            founded.folder / "server.crt", founded.folder / "server.key", following, founded.now
        )
        await at.daemon._reload()
        assert await refusal(at.ask("POST", f"{CA}/cancel", {})) == "ca_in_use"
        ended = await at.ask("POST", f"{CA}/finish", {})
        assert [each["fingerprint"] for each in ended["authorities"]] == [fingerprint(following.der)]
        assert await refusal(at.ask("DELETE", f"{CA}/{fingerprint(following.der)}")) == "ca_in_use"
        assert await refusal(at.ask("DELETE", f"{CA}/nonsense")) == "not_found"
