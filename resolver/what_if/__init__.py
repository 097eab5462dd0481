"""What other settings would have decided: the ledger's past, replayed through the step.

`history.py` reads what happened from the ledger, `simulation.py` replays a queue of it, and
`comparison.py` compares two replays. docs/ledger.md says what can't be known.
"""

from .comparison import Comparison, compare
from .history import History, read_history

__all__ = ["Comparison", "History", "compare", "read_history"]
