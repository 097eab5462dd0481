"""`txresolver up`: both jobs in one process, all data in one home."""
