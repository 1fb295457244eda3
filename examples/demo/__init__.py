"""`make demo`: the main job from end to end on this machine, with the commands and daemons that a user has.

Start with `story.py`: it names the steps, which stand in `beginning.py`, `changing.py`, `attacking.py` and `outage.py`.
The other files are one thing each: processes, the coordinator, a node, the gateway, traffic, the screen, the proof.
"""
