"""How Holdfast is used: the client library for services (`holdfast.client`), and the command lines."""
