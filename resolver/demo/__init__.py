"""The demo: a real application whose transactions commit, roll back, hang and lose their process.

| module | what |
| --- | --- |
| `orders` | an order, the message about it, and what is to become of it |
| `database` | orders in SQLite, beside the log of the transactions that placed them |
| `shop` | the order service: a process of its own, with the listener that its agent uses too |
| `ledger`, `reading` | what the topics say, read like any consumer does |
| `comparison` | the database against what was delivered |
| `processes`, `play` | what runs, what is killed when, and what it takes to have seen it all |
| `view`, `screen`, `report` | what a person sees of it |
"""
