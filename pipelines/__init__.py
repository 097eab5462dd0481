"""The jobs for spark-submit: they start Spark sessions and streaming queries."""
