"""What an agent answers on its node's socket (docs/local-api.md): one class an answer, which both sides read.

`node_status.py`: `/v1/status`. `local_answers.py`: the other answers that are one JSON object. Questions, `/v1/may` and
`/v1/watch` are in `wire/messages.py`; contents are not described here, since they are whatever was signed.
"""
