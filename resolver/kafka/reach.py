"""The first question to Kafka, before anything starts that takes long: does a broker answer?"""

from __future__ import annotations

import logging
import time

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from ..errors import NoBroker, SettingsError
from ..settings import Settings
from .clients import client_config

logger = logging.getLogger(__name__)

#: Time in seconds for the first answer; after it a warning says that no broker answers yet.
_ANSWER_SECONDS = 5.0
#: Time in seconds for a broker to come up; after it the start is given up.
_PATIENCE_SECONDS = 30.0
#: Errors that waiting does not mend.
_REFUSALS = (KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED)
_REMEDY = "check bootstrap_servers and the security options of [kafka]"


def await_broker(settings: Settings, patience_seconds: float = _PATIENCE_SECONDS) -> None:
    """Return when a broker answers.

    After 5 s without an answer a warning says so. Raises `NoBroker` when the patience is over, and
    at once `SettingsError` if brokers refuse the credentials; the text has librdkafka's reason.
    """
    errors: list[KafkaError] = []
    # Keep librdkafka silent: it would log each attempt to connect, and we say it in a sentence.
    client = AdminClient(client_config(settings, log_level=0, error_cb=errors.append))
    began = time.monotonic()
    is_told = False
    while not _answers(client, min(_ANSWER_SECONDS, patience_seconds)):
        refused = [error for error in errors if error.code() in _REFUSALS]
        seconds = time.monotonic() - began
        why = (
            f"no broker of {settings.bootstrap_servers}{_origin(settings)} answers "
            f"({_reason(refused or errors)})"
        )
        if refused:
            raise SettingsError(f"given up after {seconds:.0f} s: {why}", remedy=_REMEDY)
        if seconds >= patience_seconds:
            raise NoBroker(f"given up after {seconds:.0f} s: {why}", remedy=_REMEDY)
        if not is_told:
            logger.warning("%s; %s. Waiting up to %.0f s", why, _REMEDY, patience_seconds)
            is_told = True


def _origin(settings: Settings) -> str:
    """Name the place of the servers, unless the user has just typed them."""
    origin = settings.origins.get("bootstrap_servers", "")
    return f" ({origin})" if origin.startswith(("env ", "file ")) else ""


def _answers(client: AdminClient, seconds: float) -> bool:
    try:
        client.list_topics(timeout=seconds)
    except KafkaException:
        client.poll(0)  # serves the errors that came meanwhile
        return False
    return True


def _reason(errors: list[KafkaError]) -> str:
    """Return the last error that says more than that all brokers are down."""
    told = [error for error in errors if error.code() != KafkaError._ALL_BROKERS_DOWN]
    return told[-1].str() if told else "no answer"
