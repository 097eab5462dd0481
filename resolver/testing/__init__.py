"""For tests of applications: the contract of a listener, and a broker as a pytest fixture.

    check_contract(SqlTransactionListener(engine, log), run)     # against your own database
    pytest_plugins = ["resolver.testing.fixtures"]               # in conftest.py: a real Kafka

docs/testing.md explains both.
"""

from .contract import check_contract
from .kafka import LocalKafka

__all__ = ["LocalKafka", "check_contract"]
