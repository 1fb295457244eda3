"""What operators ask a coordinator and what it answers (docs/admin-api.md): one class a message, which both sides read.

Requests are closed: `operator_messages.py`, `trust_messages.py`. Answers pass over members that a later coordinator has
added (`wire/answer_message.py`): `operator_answers.py`, `fleet_answers.py`, `trust_answers.py`.
"""
