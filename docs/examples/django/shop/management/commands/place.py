"""`manage.py place lamp`."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from shop.orders import place


class Command(BaseCommand):
    """Places an order."""

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("item")

    def handle(self, *args: Any, item: str, **options: Any) -> None:
        place(item)
