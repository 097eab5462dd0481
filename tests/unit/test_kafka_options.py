from __future__ import annotations

from pathlib import Path

import pytest

from resolver.errors import SettingsError
from resolver.kafka.clients import client_config, spark_batch_options, spark_kafka_options
from resolver.settings import Settings

SERVERS = "kafka1:9092,kafka2:9092"
SASL = {
    "security.protocol": "sasl_ssl",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "me",
    "sasl.password": "pw",
}
KEY = "-----BEGIN PRIVATE KEY-----\nMII\n-----END PRIVATE KEY-----\n"
CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----\n"


def settings(kafka: dict[str, str], spark: dict[str, str] | None = None) -> Settings:
    return Settings(bootstrap_servers=SERVERS, kafka=kafka, spark=spark or {})


def java(kafka: dict[str, str], spark: dict[str, str] | None = None) -> dict[str, str]:
    options = spark_kafka_options(settings(kafka, spark))
    assert options.pop("kafka.bootstrap.servers") == SERVERS
    assert options.pop("kafka.fetch.max.wait.ms") == "10"
    assert options.pop("kafka.request.timeout.ms") == "10000"
    return options


def refusal(kafka: dict[str, str]) -> str:
    with pytest.raises(SettingsError) as refused:
        java(kafka)
    return str(refused.value)


def test_a_client_gets_the_servers_the_options_and_what_is_its_own() -> None:
    config = client_config(
        settings({"client.id": "x", "linger.ms": "1"}), **{"linger.ms": 5, "group.id": "g"}
    )
    assert config.pop("log_level") == 4
    assert config == {
        "bootstrap.servers": SERVERS,
        "client.id": "x",
        "linger.ms": 5,
        "group.id": "g",
    }


def test_without_servers_there_is_no_client() -> None:
    for make in (client_config, spark_kafka_options):
        with pytest.raises(SettingsError, match="bootstrap_servers is empty"):
            make(Settings())


def test_a_batch_query_reads_large_parts_unless_the_settings_say_otherwise() -> None:
    name = "kafka.max.partition.fetch.bytes"
    options = spark_batch_options(settings({}))
    assert (options[name], options["kafka.request.timeout.ms"]) == ("50000000", "60000")
    assert spark_batch_options(settings({}, {name: "1000"}))[name] == "1000"


def test_options_about_speed_are_not_translated() -> None:
    assert java({"linger.ms": "5", "client.rack": "a"}) == {"kafka.client.rack": "a"}


@pytest.mark.parametrize(
    ("mechanism", "module"),
    [
        ("PLAIN", "plain.PlainLoginModule"),
        ("SCRAM-SHA-256", "scram.ScramLoginModule"),
        ("SCRAM-SHA-512", "scram.ScramLoginModule"),
    ],
)
def test_user_and_password_become_a_jaas_login(mechanism: str, module: str) -> None:
    assert java({**SASL, "sasl.mechanism": mechanism}) == {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": mechanism,
        "kafka.sasl.jaas.config": (
            f'org.apache.kafka.common.security.{module} required username="me" password="pw";'
        ),
    }


def test_a_password_cant_break_out_of_its_quotes() -> None:
    login = java({**SASL, "sasl.password": 'a"b\\c'})["kafka.sasl.jaas.config"]
    assert login.endswith(r'password="a\"b\\c";')


def test_sasl_options_without_sasl_are_not_used() -> None:
    assert java({"sasl.username": "me", "sasl.kerberos.principal": "x"}) == {}


def test_what_java_has_no_counterpart_for_is_refused() -> None:
    assert "sasl.mechanism 'GSSAPI'" in refusal({"security.protocol": "sasl_plaintext"})
    assert "'OAUTHBEARER'" in refusal({**SASL, "sasl.mechanism": "OAUTHBEARER"})
    assert "'ssl.cipher.suites' of [kafka]" in refusal({**SASL, "ssl.cipher.suites": "x"})
    unverified = {"security.protocol": "ssl", "enable.ssl.certificate.verification": "false"}
    assert "'enable.ssl.certificate.verification' of [kafka]" in refusal(unverified)
    assert "security.protocol in [kafka] is 'tls'" in refusal({"security.protocol": "tls"})


def test_a_login_needs_user_and_password() -> None:
    without = {key: value for key, value in SASL.items() if key != "sasl.password"}
    assert "needs sasl.password in [kafka]" in refusal(without)


def test_a_family_given_for_java_is_not_translated() -> None:
    given = {"kafka.sasl.mechanism": "GSSAPI", "kafka.sasl.kerberos.service.name": "kafka"}
    kafka = {"security.protocol": "sasl_ssl", "ssl.endpoint.identification.algorithm": "none"}
    assert java(kafka, given) == {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.endpoint.identification.algorithm": "",
        **given,
    }
    truststore = {"kafka.ssl.truststore.location": "/t.jks"}
    options = java({"security.protocol": "ssl", "ssl.cipher.suites": "x"}, truststore)
    assert options == {"kafka.security.protocol": "SSL", **truststore}


def test_pem_files_travel_as_contents(tmp_path: Path) -> None:
    for name, content in (("ca", CERTIFICATE), ("cert", CERTIFICATE), ("key", KEY)):
        (tmp_path / name).write_text(content)
    assert java(
        {
            "security.protocol": "ssl",
            "ssl.ca.location": str(tmp_path / "ca"),
            "ssl.certificate.location": str(tmp_path / "cert"),
            "ssl.key.location": str(tmp_path / "key"),
        }
    ) == {
        "kafka.security.protocol": "SSL",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.certificates": CERTIFICATE,
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.certificate.chain": CERTIFICATE,
        "kafka.ssl.keystore.key": KEY,
    }


def test_unreadable_and_unusable_pem_is_refused_without_quoting_a_key(tmp_path: Path) -> None:
    ssl = {"security.protocol": "ssl"}
    missing = str(tmp_path / "none")
    assert f"ssl.ca.location in [kafka] is {missing!r}" in refusal(
        {**ssl, "ssl.ca.location": missing}
    )
    assert "is a directory" in refusal({**ssl, "ssl.ca.location": str(tmp_path)}).lower()
    for kind in ("RSA PRIVATE", "ENCRYPTED PRIVATE"):
        message = refusal({**ssl, "ssl.key.pem": KEY.replace("PRIVATE", kind)})
        assert "openssl pkcs12 -export" in message
        assert "MII" not in message


def test_the_systems_own_certificates_are_javas_own() -> None:
    options = java({"security.protocol": "ssl", "ssl.ca.location": "probe"})
    assert options == {"kafka.security.protocol": "SSL"}


def test_a_pkcs12_file_is_javas_keystore() -> None:
    kafka = {"ssl.keystore.location": "/client.p12", "ssl.keystore.password": "pw"}
    assert java({"security.protocol": "ssl", **kafka}) == {
        "kafka.security.protocol": "SSL",
        "kafka.ssl.keystore.type": "PKCS12",
        "kafka.ssl.keystore.location": "/client.p12",
        "kafka.ssl.keystore.password": "pw",
        "kafka.ssl.key.password": "pw",
    }


def test_what_spark_is_given_wins_over_what_is_translated() -> None:
    options = java({"client.rack": "a", "client.id": "x"}, {"kafka.client.rack": "b"})
    assert options == {"kafka.client.rack": "b", "kafka.client.id": "x"}
