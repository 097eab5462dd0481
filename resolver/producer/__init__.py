"""The part that runs inside an application: producers, listener, transactions, agent."""
