"""`python -m resolver`: the command `txresolver`, wherever it is installed."""

from .cli import main

main()
