"""The transaction log in Django's database, and the listener that answers from it."""

from django.db import close_old_connections, connection, transaction

from resolver import Message, TransactionListener, TransactionStatus
from resolver.sql import TransactionLog

log = TransactionLog()


class DjangoTransactionListener(TransactionListener):
    """Answers checks over the connection that Django has for the agent's thread."""

    def check_local_transaction(self, message: Message) -> TransactionStatus:
        # Only a request would do this by itself; without it a broken connection stays for good.
        close_old_connections()
        with transaction.atomic():
            status = log.settle(connection, message.transaction_id)
        return status


listener = DjangoTransactionListener()
