"""The jobs: what starts Spark sessions and streaming queries."""
