"""What of Kafka the audit asks by itself: where that fails, the audit could not be made."""

from __future__ import annotations

import pytest

from resolver.audit import topics
from resolver.errors import AuditError
from resolver.settings import Settings

NOBODY = "127.0.0.1:1"


def test_where_librdkafka_refuses_an_option_it_says_so() -> None:
    settings = Settings(bootstrap_servers=NOBODY, kafka={"session.timeout.ms": "600000"})
    with pytest.raises(AuditError, match=r"max\.poll\.interval\.ms"):
        topics.readable(settings, [])


def test_where_no_broker_answers_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "_TIMEOUT_SECONDS", 0.2)
    with pytest.raises(AuditError, match="Kafka can't be asked"):
        topics.compacted(Settings(bootstrap_servers=NOBODY), ["real"])
