"""Faults of the network: a proxy that knows Kafka's frames, between the brokers and their clients.

    client ── outside port ─▶ proxy ── inside port ─▶ broker

The broker has a listener for each side that may be hit, and advertises the proxy's port for it: so
the proxy rewrites nothing. `frames` reads the frames, and `link` carries those of a connection.
`rules` and `late` say which are delayed, held or cut. `proxy` is the process, and `control`
commands it.
"""
