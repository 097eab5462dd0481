"""Questions to the ledger: views as SQL, asked without a JVM."""

from ..protocol import HalfId
from .filter import STATUSES, Filter
from .ledger import Ledger

__all__ = ["STATUSES", "Filter", "HalfId", "Ledger"]
