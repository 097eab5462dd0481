"""Parts of a queue's state, each over the same `store.py`, which overlays a step's changes.

`head.py` has the facts about the whole queue, `settled.py` the outcomes, `bodies.py` the messages
of pending halves. `groups_back.py` has the groups whose halves get an extra check.
"""
