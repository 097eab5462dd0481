"""The demo: a real application whose transactions commit, roll back, hang and lose their process.

| module | content |
| --- | --- |
| `steps` | which process is started, killed and awaited, and when. Begin here. |
| `running` | the work meanwhile, and the end of all processes with the demo. |
| `processes` | a process that does not outlive the demo, and the settings of all. |
| `shop` | the order service: orders in SQLite, its listener, and its process. |
| `reading` | the records of the topics, read as any consumer reads them, and counted. |
| `comparison` | the database beside the delivered messages, and the report. |
| `screen` | the state of the demo, and the output for people while it runs. |
"""
