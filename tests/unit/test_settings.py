from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pytest
from typer import Typer
from typer.testing import CliRunner

from resolver.cli.config import config as config_command
from resolver.errors import SettingsError
from resolver.settings import MASK, Settings, definitions, is_secret, load_for_command
from resolver.settings.command import parse_assignments
from resolver.settings.options import spark_refused
from resolver.spark.session import REQUIRED


def refusal(
    overrides: dict[str, str] | None = None,
    environ: dict[str, str] | None = None,
    config: Path | None = None,
) -> str:
    with pytest.raises(SettingsError) as refused:
        Settings.load(config, overrides, environ or {})
    return str(refused.value)


def written(folder: Path, toml: str) -> Path:
    path = folder / "resolver.toml"
    path.write_text(toml)
    return path


def test_a_later_layer_wins_and_its_origin_is_told(tmp_path: Path) -> None:
    path = written(tmp_path, "queues = 2\nop_linger_ms = 20\ntransaction_check_max = 3\n")
    environ = {"TXRESOLVER_OP_LINGER_MS": "30", "TXRESOLVER_TRANSACTION_CHECK_MAX": "4"}
    settings = Settings.load(path, {"transaction_check_max": "5"}, environ)
    assert (settings.queues, settings.op_linger_ms, settings.transaction_check_max) == (2, 30, 5)
    assert settings.origins["queues"] == f"file {path}"
    assert settings.origins["op_linger_ms"] == "env TXRESOLVER_OP_LINGER_MS"
    assert settings.origins["transaction_check_max"] == "--set"
    assert settings.origins["topic_prefix"] == "default"


def test_the_process_environment_is_read_unless_another_is_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TXRESOLVER_QUEUES", "7")
    assert Settings.load().queues == 7
    assert Settings.load(environ={}).queues == 4


def test_rocketmq_defaults() -> None:
    settings = Settings()
    assert settings.transaction_timeout_ms == 6_000
    assert settings.transaction_check_interval_ms == 30_000
    assert settings.transaction_check_max == 15
    assert settings.file_reserved_hours == 72
    assert settings.file_reserved_ms == 259_200_000
    assert settings.op_max_bytes == 4_096
    assert settings.check_request_hold_max == 2_000
    assert settings.topic_prefix == "tx."
    assert not settings.count_unanswered_checks


@pytest.mark.parametrize("name", [d.name for d in definitions().values() if d.least is not None])
def test_each_number_is_refused_just_outside_its_bounds(name: str) -> None:
    known = definitions()[name]
    assert known.least is not None
    assert known.most is not None
    for value in (known.least - 1, known.most + 1):
        message = refusal({name: str(value)})
        assert message.startswith(f"{name} is {value}; give a whole number from {known.bounds}")


@pytest.mark.parametrize("name", list(definitions()))
def test_each_setting_refuses_a_value_of_another_type(name: str, tmp_path: Path) -> None:
    wrong = "1.5" if not isinstance(definitions()[name].default, str) else "1"
    message = refusal(config=written(tmp_path, f"{name} = {wrong}\n"))
    assert message.startswith(f"{name} is {wrong}; give ")


@pytest.mark.parametrize("value", ["", "1.0", "0x4", "four", "4 queues", "true"])
def test_text_that_is_no_whole_number_is_refused(value: str) -> None:
    assert f"queues is {value!r}" in refusal({"queues": value})


@pytest.mark.parametrize(("value", "flag"), [("true", True), ("False", False), ("TRUE", True)])
def test_true_and_false_are_read_in_any_case(value: str, flag: bool) -> None:
    settings = Settings.load(None, {"create_check_topics": value}, {})
    assert settings.create_check_topics is flag


@pytest.mark.parametrize("value", ["yes", "1", "", "on"])
def test_other_words_for_true_are_refused(value: str) -> None:
    message = refusal({"create_check_topics": value})
    assert f"create_check_topics is {value!r}; give true or false" in message


def test_true_is_no_number_in_a_file(tmp_path: Path) -> None:
    assert "queues is True" in refusal(config=written(tmp_path, "queues = true\n"))


@pytest.mark.parametrize("prefix", ["", "a b.", "tx/", "ü.", "x" * 44])
def test_an_illegal_prefix_is_refused(prefix: str) -> None:
    assert f"topic_prefix is {prefix!r}" in refusal({"topic_prefix": prefix})


def test_the_longest_prefix_leaves_room_for_the_longest_group() -> None:
    prefix = Settings.load(None, {"topic_prefix": "x" * 43}, {}).topic_prefix
    assert len(f"{prefix}check.{'g' * 200}") == 249


@pytest.mark.parametrize("servers", ["kafka", "kafka:", ":9092", "kafka:0", "k:70000", "a:1,,b:2"])
def test_servers_without_host_or_port_are_refused(servers: str) -> None:
    assert f"bootstrap_servers is {servers!r}" in refusal({"bootstrap_servers": servers})


@pytest.mark.parametrize("servers", ["", "kafka:9092", "a.b:1, c_d:65535", "[::1]:9092"])
def test_legal_servers(servers: str) -> None:
    loaded = Settings.load(None, {"bootstrap_servers": servers}, {})
    assert loaded.bootstrap_servers == servers


def test_settings_that_contradict_each_other_are_refused() -> None:
    pools = refusal({"check_thread_pool_min_size": "6"})
    assert "check_thread_pool_min_size is 6, above check_thread_pool_max_size (5)" in pools
    checks = refusal({"max_checks_per_batch": "3"})
    assert "queues is 4, above max_checks_per_batch (3)" in checks
    expired = refusal({"transaction_timeout_ms": "3600001", "file_reserved_hours": "1"})
    assert "transaction_timeout_ms is 3600001, longer than file_reserved_hours (1)" in expired
    outlasts = refusal({"kafka.socket.timeout.ms": "300101"})
    assert "300101, longer than kafka_transaction_timeout_ms (300000)" in outlasts
    assert Settings.load(None, {"kafka.socket.timeout.ms": "300100"}, {}).kafka


def test_a_changed_copy_is_validated_too() -> None:
    assert replace(Settings(), queues=8).queues == 8
    with pytest.raises(SettingsError, match="queues is 0"):
        replace(Settings(), queues=0)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("queue", "queues"),
        ("transaction_time_out_ms", "transaction_timeout_ms"),
        ("transactionTimeOut", "transaction_timeout_ms"),
        ("fileReservedTime", "file_reserved_hours"),
        ("kafak", "[kafka]"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_one(name: str, near: str) -> None:
    message = refusal({name: "1"})
    assert f"unknown setting {name!r} (--set), did you mean {near}?" in message


def test_an_unknown_name_is_refused_in_every_layer(tmp_path: Path) -> None:
    path = written(tmp_path, "zzz = 1\n")
    assert f"unknown setting 'zzz' (file {path});" in refusal(config=path)
    assert "'zzz' (env TXRESOLVER_ZZZ)" in refusal(environ={"TXRESOLVER_ZZZ": "1"})
    assert "unknown setting 'zzz.kafka.x' (--set)" in refusal({"zzz.kafka.x": "1"})
    for name in ("kafka", "kafka.", "spark", "origins", ""):
        assert f"unknown setting {name!r}" in refusal({name: "1"})


def test_other_variables_are_not_ours() -> None:
    assert Settings.load(None, {}, {"QUEUES": "9", "PATH": "/bin"}).queues == 4
    machine = {"TXRESOLVER_JAR_CACHE": "/jars", "TXRESOLVER_BROKER_HEAP": "256m"}
    machine |= {"TXRESOLVER_HOME": ".txresolver/demo"}
    assert Settings.load(None, {}, machine) == Settings()


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    missing = tmp_path / "missing.toml"
    assert f"can't read the settings file {missing}: No such file" in refusal(config=missing)
    assert "is not TOML" in refusal(config=written(tmp_path, "queues = \n"))
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe")
    assert "is not TOML" in refusal(config=binary)


def test_options_are_read_from_every_layer(tmp_path: Path) -> None:
    toml = (
        '[kafka]\nsasl.mechanism = "PLAIN"\n"socket.keepalive.enable" = true\n"linger.ms" = 5\n'
        '[spark]\n"spark.driver.memory" = "1g"\n"kafka.ssl.protocol" = "TLSv1.3"\n'
    )
    environ = {
        "TXRESOLVER_KAFKA__SASL_PASSWORD": "p=1",
        "TXRESOLVER_SPARK__driver_maxResultSize": "2g",
        "TXRESOLVER_SPARK__SPARK_EXECUTOR_CORES": "1",
    }
    overrides = {"kafka.linger.ms": "7", "spark.ui.enabled": "false"}
    settings = Settings.load(written(tmp_path, toml), overrides, environ)
    assert settings.kafka == {
        "sasl.mechanism": "PLAIN",
        "socket.keepalive.enable": "true",
        "linger.ms": "7",
        "sasl.password": "p=1",
    }
    assert settings.spark_conf == {
        "spark.driver.memory": "1g",
        "spark.driver.maxResultSize": "2g",
        "spark.executor.cores": "1",
        "spark.ui.enabled": "false",
    }
    assert settings.spark["kafka.ssl.protocol"] == "TLSv1.3"
    assert settings.origins["kafka.linger.ms"] == "--set"
    assert settings.origins["kafka.sasl.password"] == "env TXRESOLVER_KAFKA__SASL_PASSWORD"


@pytest.mark.parametrize("toml", ["kafka = 1", "[kafka]\nx = [1]", '[kafka]\n"" = 1', "[[spark]]"])
def test_tables_of_another_shape_are_refused(toml: str, tmp_path: Path) -> None:
    assert "; give " in refusal(config=written(tmp_path, toml))


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ("acks", "acknowledged by all in-sync replicas"),
        ("enable.idempotence", "acknowledged by all in-sync replicas"),
        ("transactional.id", "topic_prefix"),
        ("transaction.timeout.ms", "set kafka_transaction_timeout_ms instead"),
        ("bootstrap.servers", "set bootstrap_servers instead"),
        ("isolation.level", "read_committed"),
        ("group.id", "producer group's name"),
        ("enable.auto.commit", "offsets are committed only after"),
        ("partitioner", "murmur2"),
    ],
)
def test_kafka_options_that_are_ours_are_refused_with_the_reason(option: str, reason: str) -> None:
    message = refusal({f"kafka.{option}": "1"})
    assert message.startswith(f"{option!r} can't be set in [kafka]: ")
    assert reason in message
    variable = "TXRESOLVER_KAFKA__" + option.upper().replace(".", "_")
    assert refusal(environ={variable: "1"}) == message


@pytest.mark.parametrize(
    "option", ["spark.sql.session.timeZone", "kafka.group.id", "kafka.bootstrap.servers"]
)
def test_spark_options_that_are_ours_are_refused(option: str) -> None:
    assert f"{option!r} can't be set in [spark]" in refusal({f"spark.{option}": "1"})


def test_all_that_the_session_fixes_is_refused_in_spark() -> None:
    assert set(REQUIRED) <= set(spark_refused())


def test_options_that_librdkafka_does_not_know_are_refused() -> None:
    with pytest.raises(SettingsError, match=r'No such configuration property: "linger\.mss"'):
        load_for_command(assignments=["kafka.linger.mss=1"])
    with pytest.raises(SettingsError, match="refused by librdkafka: Invalid value"):
        load_for_command(assignments=["kafka.linger.ms=soon"])


def test_kerberos_is_refused_with_the_remedy() -> None:
    kerberos = ["kafka.security.protocol=sasl_ssl", "kafka.sasl.mechanism=GSSAPI"]
    with pytest.raises(SettingsError, match=r"no Kerberos.*SCRAM-SHA-512"):
        load_for_command(assignments=kerberos)


@pytest.mark.parametrize(
    "key",
    [
        "sasl.password",
        "ssl.key.password",
        "ssl.key.pem",
        "ssl.keystore.password",
        "kafka.sasl.jaas.config",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.config",
        "spark.hadoop.fs.s3a.access.key",
        "spark.authenticate.secret",
        "some.TOKEN",
    ],
)
def test_secrets_are_known_by_their_names(key: str) -> None:
    assert is_secret(key)


def test_secrets_are_known_by_their_values() -> None:
    assert is_secret("http.proxy", "http://me:pw@proxy:80")
    assert is_secret("spark.driver.extraJavaOptions", "-Dtrust.Password=x")
    assert not is_secret("sasl.username", "me")
    assert not is_secret("linger.ms", "5")


def test_no_secret_leaves() -> None:
    overrides = {"kafka.sasl.password": "hunter2", "spark.kafka.sasl.jaas.config": "hunter2"}
    settings = Settings.load(None, overrides, {})
    assert "hunter2" not in repr(settings)
    assert "hunter2" not in str(settings.shown())
    assert ("kafka.sasl.password", MASK, "--set") in settings.shown()
    assert "hunter2" not in refusal({**overrides, "kafka.acks": "hunter2"})


def test_settings_travel_to_other_processes() -> None:
    settings = Settings.load(None, {"queues": "8", "kafka.linger.ms": "1"}, {})
    assert pickle.loads(pickle.dumps(settings)) == settings  # noqa: S301 - our own bytes
    assert hash(settings) == hash(pickle.loads(pickle.dumps(settings)))  # noqa: S301


def test_assignments_keep_equal_signs_in_values() -> None:
    assert parse_assignments(["kafka.sasl.password=a=b", " queues =4"]) == {
        "kafka.sasl.password": "a=b",
        "queues": "4",
    }


@pytest.mark.parametrize("assignment", ["queues", "=4", ""])
def test_an_assignment_without_name_or_value_is_refused(assignment: str) -> None:
    with pytest.raises(SettingsError, match="--set needs name=value"):
        parse_assignments([assignment])


@pytest.mark.parametrize("secret", ["hunter2", "hunter2="])
@pytest.mark.parametrize("sign", [":", " ", " : ", "\t"])
def test_a_refused_assignment_is_quoted_without_its_value(sign: str, secret: str) -> None:
    """A secret in base64 may itself end in the sign that was not typed."""
    with pytest.raises(SettingsError, match=r"got 'kafka\.sasl\.password'") as refused:
        parse_assignments([f"kafka.sasl.password{sign}{secret}"])
    assert "hunter2" not in str(refused.value)


def test_a_commands_own_options_win_over_set() -> None:
    settings = load_for_command(
        assignments=["queues=8"], options={"queues": 16, "op_linger_ms": None}
    )
    assert settings.queues == 16
    assert settings.op_linger_ms == 10


def test_the_config_command_shows_values_and_origins_masked(tmp_path: Path) -> None:
    app = Typer()
    app.command()(config_command)
    path = written(tmp_path, "queues = 6\n")
    arguments = ["--config", str(path), "--set", "kafka.sasl.password=hunter2"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    shown = {line.split()[0]: line.split()[1:] for line in result.output.splitlines()}
    assert shown["queues"] == ["6", "file", str(path)]
    assert shown["op_linger_ms"] == ["10", "default"]
    assert shown["kafka.sasl.password"] == [MASK, "--set"]
    as_json = CliRunner().invoke(app, [*arguments, "--json"])
    assert '"origin": "--set"' in as_json.output
    assert "hunter2" not in result.output + as_json.output
