"""The command `erase`: a message goes from all tables, and from their older versions."""

from __future__ import annotations

from ..protocol import Act
from .acting import Access, Request, acting
from .options import with_options


@with_options
def erase(request: Request, access: Access) -> None:
    """Erase messages that have ended: key, body and headers, from all tables and older versions.

    It says what Kafka still has, and until when.
    """
    with acting(access) as operator:
        operator.do(Act.ERASE, request)
