"""The audit: recomputes every outcome from the landed tables, and compares (docs/audit.md)."""
