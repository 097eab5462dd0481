"""The shop's tables."""

from django.db import models


class Order(models.Model):
    """An order."""

    item = models.CharField(max_length=80)
