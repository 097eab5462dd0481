"""Translates librdkafka's options for Java's client, which Spark's Kafka source uses.

If [spark] gives any `kafka.*` option of a family (`sasl.*`, `ssl.*`), this family is not
translated: the user sets it there. Options about speed are not translated either.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from ..errors import SettingsError

Options = Mapping[str, str]

_LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_SAME = ("client.dns.lookup", "client.rack", "client.id")
_PLAIN_KEY = "-----BEGIN PRIVATE KEY-----"


def java_options(kafka: Options, spark_kafka: Options) -> dict[str, str]:
    """Translate options of [kafka] to `kafka.*` options; raises `SettingsError` where it can't.

    `spark_kafka` are the `kafka.*` options of [spark].
    """
    protocol = kafka.get("security.protocol", "plaintext").upper()
    if protocol not in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"):
        raise SettingsError(
            f"security.protocol in [kafka] is {protocol.lower()!r}",
            remedy="give plaintext, ssl, sasl_plaintext or sasl_ssl",
        )
    options = {key: kafka[key] for key in _SAME if key in kafka}
    if "security.protocol" in kafka:
        options["security.protocol"] = protocol
    if protocol.startswith("SASL") and not _has_family("sasl", spark_kafka):
        options |= _sasl(kafka)
    if protocol.endswith("SSL") and not _has_family("ssl", spark_kafka):
        options |= _ssl(kafka)
    return {f"kafka.{key}": value for key, value in options.items()}


def _has_family(family: str, spark_kafka: Options) -> bool:
    return any(key.startswith(f"kafka.{family}.") for key in spark_kafka)


def _sasl(kafka: Options) -> dict[str, str]:
    mechanism = kafka.get("sasl.mechanism", kafka.get("sasl.mechanisms", "GSSAPI"))
    if mechanism not in _LOGIN_MODULES:
        raise SettingsError(
            f"sasl.mechanism {mechanism!r} of [kafka] can't be translated for Spark's Kafka "
            f"client (only {', '.join(_LOGIN_MODULES)} can)",
            remedy='give its own options in [spark], such as "kafka.sasl.mechanism" and '
            '"kafka.sasl.jaas.config"',
        )
    understood = {"sasl.mechanism", "sasl.mechanisms", "sasl.username", "sasl.password"}
    _refuse_others("sasl", kafka, understood)
    for name in ("sasl.username", "sasl.password"):
        if name not in kafka:
            raise SettingsError(
                f"sasl.mechanism {mechanism} needs {name} in [kafka]", remedy="give it"
            )
    login = (
        f"{_LOGIN_MODULES[mechanism]} required username={_quoted(kafka['sasl.username'])} "
        f"password={_quoted(kafka['sasl.password'])};"
    )
    return {"sasl.mechanism": mechanism, "sasl.jaas.config": login}


def _quoted(text: str) -> str:
    """Quote for JAAS, which reads backslashes as C does."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _ssl(kafka: Options) -> dict[str, str]:
    """Translate certificates and keys: PEM as contents, so that executors need no files."""
    _refuse_others("ssl", kafka, set(_SSL) | _SSL_WITH_OTHERS)
    options: dict[str, str] = {}
    for name, translate in _SSL.items():
        if name in kafka:
            options |= translate(kafka[name], kafka)
    return options


def _ca_location(path: str, kafka: Options) -> dict[str, str]:
    # "probe" is librdkafka's word for the system's own certificates, which Java finds by itself.
    return {} if path == "probe" else _ca_pem(_contents("ssl.ca.location", path), kafka)


def _ca_pem(pem: str, _: Options) -> dict[str, str]:
    return {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": pem}


def _certificate_location(path: str, kafka: Options) -> dict[str, str]:
    return _certificate_pem(_contents("ssl.certificate.location", path), kafka)


def _certificate_pem(pem: str, _: Options) -> dict[str, str]:
    return {"ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": pem}


def _key_location(path: str, kafka: Options) -> dict[str, str]:
    return _key_pem(_contents("ssl.key.location", path), kafka)


def _key_pem(pem: str, _: Options) -> dict[str, str]:
    # Refuse encrypted keys too: Java before 19 can't decrypt openssl's encryption (PBES2).
    if _PLAIN_KEY not in pem:
        raise SettingsError(
            "the private key in [kafka] is not an unencrypted PKCS#8 one (BEGIN PRIVATE KEY), the "
            "only PEM that Spark's Kafka client reads for sure",
            remedy="give a PKCS#12 file as ssl.keystore.location instead (openssl pkcs12 -export "
            "-inkey KEY -in CERTIFICATE -out FILE), or convert the key (openssl pkcs8 -topk8 "
            "-nocrypt -in KEY -out KEY8)",
        )
    return {"ssl.keystore.key": pem}


def _keystore(path: str, kafka: Options) -> dict[str, str]:
    password = kafka.get("ssl.keystore.password", "")
    return {
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": path,
        "ssl.keystore.password": password,
        "ssl.key.password": password,
    }


def _host_names(algorithm: str, _: Options) -> dict[str, str]:
    return {"ssl.endpoint.identification.algorithm": "" if algorithm == "none" else algorithm}


_SSL: dict[str, Callable[[str, Options], dict[str, str]]] = {
    "ssl.ca.location": _ca_location,
    "ssl.ca.pem": _ca_pem,
    "ssl.certificate.location": _certificate_location,
    "ssl.certificate.pem": _certificate_pem,
    "ssl.key.location": _key_location,
    "ssl.key.pem": _key_pem,
    "ssl.keystore.location": _keystore,
    "ssl.endpoint.identification.algorithm": _host_names,
}
_SSL_WITH_OTHERS = {"ssl.key.password", "ssl.keystore.password"}


def _contents(name: str, path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii", errors="replace")
    except OSError as error:
        raise SettingsError(
            f"{name} in [kafka] is {path!r}: {error.strerror}", remedy="give a readable PEM file"
        ) from error


def _refuse_others(family: str, kafka: Options, understood: set[str]) -> None:
    for name in kafka:
        ours = name.startswith(f"{family}.") or name.startswith(f"enable.{family}.")
        if ours and name not in understood:
            raise SettingsError(
                f"{name!r} of [kafka] has no counterpart in Spark's Kafka client",
                remedy="remove it, or give that client all its own options in [spark], as "
                f'"kafka.{family}..."',
            )
