"""Writes docs/settings.md and conf/resolver.toml from the code: `python -m resolver.settings.docs`.

Both files are in the repository. A test fails when they differ from this module's output.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from .definition import Definition, toml_value
from .layers import NO_SETTINGS
from .model import definitions
from .options import kafka_refused, spark_refused

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs" / "settings.md"
CONFIG = ROOT / "conf" / "resolver.toml"

_DOCS_HEAD = """\
# Settings

<!-- Made by `python -m resolver.settings.docs`; change resolver/settings/model.py instead. -->

A value comes from the first of these that gives one:

1. `--set name=value` of a command (and the command's own options, such as `--queues`)
2. an environment variable: `TXRESOLVER_` and the name in capitals
3. the file of `--config`, else `conf/resolver.toml` of the project
4. the default

`txresolver config` shows every value and where it comes from. Unknown names and illegal values
are refused.
"""

_DOCS_OPTIONS = """\
## [kafka]: options of every Kafka client

Options of librdkafka, passed to every client as they are:

| where | how |
| --- | --- |
| file | `"sasl.password" = "…"` under `[kafka]` |
| environment | `TXRESOLVER_KAFKA__SASL_PASSWORD` (underscores stand for dots) |
| command | `--set kafka.sasl.password=…` (visible to others in the list of processes) |

Spark reads Kafka with Java's client. `security.protocol`, SASL (PLAIN, SCRAM-SHA-256,
SCRAM-SHA-512), the PEM and PKCS#12 options of `ssl.*`, `client.id`, `client.rack` and
`client.dns.lookup` are translated for it; another `sasl.*` or `ssl.*` option is refused when a
query starts, unless `[spark]` gives options of that family itself.

These are the resolver's own and refused:
"""

_DOCS_SPARK = """\
## [spark]: Spark's configuration

Spark's settings, passed to the session, and as `kafka.*` options of Java's Kafka client:

| where | how |
| --- | --- |
| file | `"spark.driver.memory" = "2g"`, `"kafka.sasl.jaas.config" = "…"` under `[spark]` |
| environment | `TXRESOLVER_SPARK__DRIVER_MEMORY`; mixed case as it is: `TXRESOLVER_SPARK__driver_maxResultSize` |
| command | `--set spark.driver.memory=2g`; `--set spark.kafka.sasl.jaas.config=…` (visible to others in the list of processes) |

These are the resolver's own and refused:
"""  # noqa: E501

_DOCS_GROUPS = """\
## [groups.<name>]: what a producer group may do

In a file only. `"*"` stands for every group that has no `topics` of its own.

```toml
[groups.orders]
topics = ["orders.*", "audit"]
principal = "User:orders"

[groups."*"]
topics = []
```

| key | without it | meaning |
| --- | --- | --- |
| `topics` | those of `[groups."*"]`, else any | The real topics that the group's messages may go to: names, or how names begin followed by `*`. A commit to another topic ends as UNDELIVERABLE. |
| `principal` | no rights are granted | Who the group's applications are to Kafka: `txresolver topics create --acls` grants them what a group needs. |
| `fast` | `false` | Whether the group's producers deliver commits themselves (`fast=True`). Then `--acls` also grants them Write on `topics`, and on their fast ids. |

The group is what a half says of itself: see *Security* in the
[protocol](protocol.md#9-security) for what this keeps out, and what it does not.
"""  # noqa: E501

_DOCS_SECRETS = """\
## Secrets

Options whose name or value looks like a secret (passwords, keys, tokens, JAAS, credentials) are
shown as `********`, and quoted in no error message.

Those of [kafka], and `kafka.*` of [spark], reach the clients within their processes. `spark.*` of
[spark] become arguments of Spark's JVM, which every user of the machine can list, as they can what
`--set` gives a command: keep a file system's keys in Hadoop's own `core-site.xml` or in
`spark-defaults.conf`, readable by the job alone.
"""

_DOCS_NO_SETTINGS = """\
## Variables that are no settings

Read from the environment alone:

| variable | meaning |
| --- | --- |
"""

_CONFIG_HEAD = """\
# Settings of the resolver, with their defaults; the table is in docs/settings.md.
# TXRESOLVER_ variables win over this file, and --set name=value over both.
"""

_CONFIG_TAIL = """\
# Options of librdkafka for every Kafka client; secrets are better in the environment:
# TXRESOLVER_KAFKA__SASL_PASSWORD.
[kafka]
# "security.protocol" = "sasl_ssl"
# "sasl.mechanism" = "SCRAM-SHA-512"
# "sasl.username" = "resolver"

# Settings of Spark, and options of its Kafka client as "kafka.…".
[spark]
# "spark.driver.memory" = "2g"

# What a producer group may do: the real topics of its messages, by name or by how names begin
# ("orders.*"), and who it is to Kafka, for `txresolver topics create --acls`. "*": all others.
# [groups.orders]
# topics = ["orders.*"]
# principal = "User:orders"
# [groups."*"]
# topics = []
"""


def docs() -> str:
    """Return docs/settings.md."""
    parts = [_DOCS_HEAD]
    parts += [f"## {section}\n\n{_table(known)}" for section, known in _sections()]
    parts += [_DOCS_OPTIONS + "\n" + _refused(kafka_refused())]
    parts += [_DOCS_SPARK + "\n" + _refused(spark_refused())]
    parts += [_DOCS_GROUPS, _DOCS_SECRETS, _DOCS_NO_SETTINGS + _variables()]
    return "\n".join(parts)


def config() -> str:
    """Return conf/resolver.toml."""
    parts = [_CONFIG_HEAD]
    for section, known in _sections():
        parts.append(f"# --- {section} ---\n")
        parts += [_entry(definition) for definition in known]
    return "\n".join([*parts, _CONFIG_TAIL])


def _sections() -> Iterator[tuple[str, list[Definition]]]:
    for section, known in groupby(
        definitions().values(), key=lambda definition: definition.section
    ):
        yield section, list(known)


def _table(known: list[Definition]) -> str:
    rows = [
        "| name | default | unit | least to most | RocketMQ's name | meaning |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for definition in known:
        rocketmq = f"`{definition.rocketmq}`" if definition.rocketmq else ""
        cells = (
            f"`{definition.name}`",
            f"`{toml_value(definition.default)}`",
            definition.unit,
            definition.bounds,
            rocketmq,
        )
        rows.append(f"| {' | '.join(cells)} | {definition.about} |")
    return "\n".join(rows) + "\n"


def _refused(reasons: dict[str, str]) -> str:
    rows = [f"| `{name}` | {reason} |" for name, reason in reasons.items()]
    return "\n".join(["| option | why |", "| --- | --- |", *rows]) + "\n"


def _variables() -> str:
    rows = [f"| `{name}` | {meaning} |" for name, meaning in NO_SETTINGS.items()]
    return "\n".join(rows) + "\n"


def _entry(definition: Definition) -> str:
    sentences = [definition.about]
    if definition.unit:
        sentences.append(f"({definition.unit}, {definition.bounds})")
    if definition.rocketmq:
        sentences.append(f"RocketMQ: {definition.rocketmq}.")
    comment = textwrap.fill(" ".join(sentences), 98, initial_indent="# ", subsequent_indent="# ")
    return f"{comment}\n{definition.example}\n"


if __name__ == "__main__":
    DOCS.write_text(docs(), encoding="utf-8")
    CONFIG.write_text(config(), encoding="utf-8")
