"""How it is sent: one small HTTP/1.1 server and one strict client, on trio and h11, and the messages they carry.

Start with `server.py` (who may come in, how many, until when), then `connection.py` (request after request) and
`request.py` (what a handler is given). `unix.py` and `tls.py` know who the caller is; `client.py` is the other end.
"""
