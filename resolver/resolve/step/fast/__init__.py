"""Fast halves in the step: their producers may still commit them, until their fast id is revoked.

`halves.py` keeps them, `ids.py` their fast ids. `waiting_ends.py` has the other ends wait for the
revocation, `holding.py` the checks.
"""
