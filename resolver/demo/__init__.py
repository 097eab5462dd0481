"""The demo: a real application whose transactions commit, roll back, hang and lose their process.

| module | what |
| --- | --- |
| `orders` | an order, the message about it, and what is to become of it |
| `database` | orders in SQLite, beside the log of the transactions that placed them |
| `shop` | the order service: a process of its own, with the listener that its agent uses too |
| `reading`, `ledger` | what the topics say, read as any consumer does |
| `delivered`, `comparison` | the database against what was delivered |
| `landed` | how far the tables are |
| `shortened` | the demo's settings |
| `play` | the story: what is started, what is killed when, what is waited for |
| `stage`, `processes` | what runs meanwhile, and that nothing outlives the demo |
| `view`, `screen`, `report` | what a person sees of it |
| `run` | the demo in a home, one at a time |
"""
