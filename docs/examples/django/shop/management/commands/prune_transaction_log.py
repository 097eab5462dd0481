"""`manage.py prune_transaction_log`, to be run once a day."""

from typing import Any

from django.core.management.base import BaseCommand
from django.db import connection, transaction

from resolver.sql import SAFE_AGE
from shop.transactions import log


class Command(BaseCommand):
    """Deletes what no check can come for any more, 10,000 rows in each transaction."""

    def handle(self, *args: Any, **options: Any) -> None:
        more = 1
        while more:
            with transaction.atomic():
                more = log.prune(connection, SAFE_AGE)
