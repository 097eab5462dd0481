"""`python -m resolver`: the command `txresolver`, wherever it is installed."""

from resolver.cli import main

main()
