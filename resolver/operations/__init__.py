"""Acts of operators on the ledger's transactions: settle, resume, ask, replay, erase.

Begin with `Operation` in `operation.py`. `choice.py` says on which transactions it may act,
`table.py` writes it down, and `job.py` carries it out, chunk by chunk. `erasure.py` does so for an
erasure, which acts on the tables; `remains.py` says what Kafka still has. `maintenance.py` keeps
the tables small.
"""

from .choice import Choice, Taken, choose, refuse_other_topics
from .erasure import Erasure
from .job import Job
from .maintenance import maintain
from .operation import Operation
from .outcomes import OutcomeReader
from .remains import remains
from .table import OperationTable

__all__ = [
    "Choice",
    "Erasure",
    "Job",
    "Operation",
    "OperationTable",
    "OutcomeReader",
    "Taken",
    "choose",
    "maintain",
    "refuse_other_topics",
    "remains",
]
