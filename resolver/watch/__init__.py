"""What operators watch: metrics for Prometheus, health of the process, logs as JSON."""
