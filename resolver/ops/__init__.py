"""Sending ops: packed, many halves of one queue and state in one record."""

from .pack import Pack, Packer, PackKey
from .sender import OpSender

__all__ = ["OpSender", "Pack", "PackKey", "Packer"]
