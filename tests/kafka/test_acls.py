"""What each role may do in Kafka once `txresolver topics create --acls` has run, and no more."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
)

from resolver import Message, TransactionProducer
from resolver.broker import Broker
from resolver.errors import AccessError, SettingsError
from resolver.kafka.oldest import oldest_records
from resolver.resolve.rebuild import rebuild_ends, refuse_gaps
from tests.support.patience import PATIENCE_SECONDS, wait_until
from tests.support.secured import PRINCIPALS, SecuredBroker, Site


@pytest.fixture(scope="module")
def site(secured: SecuredBroker, tmp_path_factory: pytest.TempPathFactory) -> Site:
    site = Site(secured, tmp_path_factory.mktemp("site"))
    done = site.create("--acls", *PRINCIPALS)
    assert done.exit_code == 0, done.output
    # The groups' names have no prefix: another site on this broker may have been granted them.
    lines = done.output.splitlines()
    assert any(site.names.prefix in line for line in lines)
    verified = [line for line in lines if " verified " in line]
    assert all(line.endswith(("group orders", "group pay")) for line in verified)
    return site


def test_a_second_run_grants_nothing_and_says_so(site: Site) -> None:
    done = site.create("--acls", *PRINCIPALS)
    assert done.exit_code == 0, done.output
    _, rights = done.output.split("\n\n")  # nothing is left to grant
    rows = [line.split() for line in rights.splitlines()[1:]]
    assert {row[1] for row in rows} == {"verified"}
    said = {" ".join(row) for row in rows}
    assert f"User:orders verified write topic {site.names.half}" in said
    assert f"User:resolver verified write topic {site.real}.*" in said
    assert f"User:resolver verified create topic {site.names.check('*')}" in said
    assert f"User:resolver verified write transactional id {site.names.resolver}*" in said
    assert f"User:resolver verified write transactional id {site.names.prefix}fast:*" in said
    assert f"User:pay verified write transactional id {site.names.fast_id('pay', '*')}" in said
    assert f"User:pay verified write topic {site.real}-pay" in said


def test_where_groups_may_publish_to_any_topic_it_says_what_is_left_to_grant(
    site: Site, tmp_path: Path
) -> None:
    unlimited = tmp_path / "unlimited.toml"
    unlimited.write_text('[groups.orders]\nprincipal = "User:orders"\n')
    done = site.create("--acls", *PRINCIPALS, f"--config={unlimited}")
    assert done.exit_code == 0, done.output
    assert "Not granted: the real topics of orders, groups without a section" in done.output
    assert "grant the resolver Read, Write and DescribeConfigs" in done.output


def test_where_nothing_checks_rights_it_says_what_to_set_and_makes_nothing(
    site: Site, kafka: Broker
) -> None:
    done = site.create("--acls", *PRINCIPALS, bootstrap=kafka.bootstrap)
    assert isinstance(done.exception, AccessError)
    assert "set authorizer.class.name on brokers and controllers" in str(done.exception)
    assert done.output == ""


def test_who_may_not_grant_is_told_what_that_needs(site: Site) -> None:
    done = site.create("--acls", *PRINCIPALS, user="orders")
    assert isinstance(done.exception, AccessError)
    assert "this needs Alter and Describe on the cluster" in str(done.exception)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--acls", "--resolver-principal=anna"], "--resolver-principal is 'anna'; give it as"),
        (["--resolver-principal=User:anna"], "give --acls too"),
    ],
)
def test_principals_are_checked(site: Site, options: list[str], said: str) -> None:
    done = site.create(*options)
    assert isinstance(done.exception, SettingsError)
    assert said in str(done.exception)


def test_without_anybody_to_grant_rights_to_it_says_who_is_meant(
    site: Site, tmp_path: Path
) -> None:
    nobody = tmp_path / "nobody.toml"
    nobody.touch()
    done = site.create("--acls", f"--config={nobody}")
    assert "--acls has nobody to grant rights to" in str(done.exception)


#: User, what it tries, and on what: `{}` stands for the prefix, `real` for how real topics begin.
FORBIDDEN = [
    "orders read {}half",
    "orders read {}op",
    "orders read {}check.pay",
    "orders read {}resolution",
    "orders read {}discarded",
    "orders read {}quarantine",
    "orders write real.placed",
    "orders write {}check.orders",
    "orders write {}resolution",
    "orders write {}marker",
    "orders write {}discarded",
    "orders write {}quarantine",
    "orders write {}policy",
    "orders read real.placed",
    "orders delete {}half",
    "orders delete {}op",
    "orders alter {}half",
    "orders alter {}op",
    "orders join pay",
    "pay read {}check.orders",
    "pay write {}check.orders",
    "pay join orders",
    "orders join {}resolver",
    "orders be {}resolver",
    "orders be anything",
    "orders be {}fast:orders:a",
    "pay be {}fast:orders:a",
    "pay be {}fast:pay2:a",
    "pay write real.placed",
    "stranger write {}half",
    "stranger write {}op",
    "resolver write {}marker",
    "resolver read {}policy",
    "resolver write real-other",
    "resolver delete {}half",
    "resolver delete {}parked",
    "resolver delete real.placed",
    "resolver alter {}half",
    "resolver read real-other",
    "resolver delete {}check.orders",
    "resolver join orders",
    "land write {}op",
    "land write {}resolution",
    "land read real.placed",
    "land delete {}half",
    "land alter {}half",
    "land join {}resolver",
    "operator read {}half",
    "operator read {}op",
    "operator read {}check.orders",
    "operator write {}resolution",
    "operator write {}marker",
    "operator write real.placed",
    "operator delete {}quarantine",
    "operator alter {}op",
    "operator join {}resolver",
    "operator be {}resolver",
    "operator be {}fast:pay:a",
    "auditor read {}half",
    "auditor read {}op",
    "auditor read {}check.orders",
    "auditor write {}op",
    "auditor write real.placed",
    "auditor join {}resolver",
    "auditor be {}resolver",
]


@pytest.mark.gate
@pytest.mark.parametrize("forbidden", FORBIDDEN)
def test_what_is_not_granted_is_refused(site: Site, forbidden: str) -> None:
    user, act, what = forbidden.split()
    name = what.format(site.names.prefix).replace("real", site.real)
    acts = {"read": read, "write": write, "delete": delete, "alter": alter, "join": join, "be": be}
    assert acts[act](site, site.broker.options(user), name) in (
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    )


def read(site: Site, options: dict[str, str], topic: str) -> int | None:
    consumer = Consumer({**options, "group.id": site.names.reader})
    try:
        known = consumer.list_topics(topic, 30).topics[topic].error
        if known is not None:  # it may not even know that there is such a topic
            return int(known.code())
        consumer.assign([TopicPartition(topic, 0, 0)])
        return wait_until(lambda: first_error(consumer, KafkaError.GROUP_AUTHORIZATION_FAILED))
    finally:
        consumer.close()


def join(site: Site, options: dict[str, str], group: str) -> int | None:
    """Become a member; the right to that is also the right to commit the group's offsets."""
    consumer = Consumer({**options, "group.id": group})
    consumer.subscribe([site.names.check("orders")])
    try:
        return wait_until(lambda: first_error(consumer, KafkaError.TOPIC_AUTHORIZATION_FAILED))
    finally:
        consumer.close()


def first_error(consumer: Consumer, besides: int) -> int | None:
    """Poll; return the code of an error, but for one that is not what is asked for."""
    message = consumer.poll(1)
    if message is None:
        return None
    error = message.error()
    assert error is not None, "it may read"
    code = error.code()
    return None if code == besides else code


def write(site: Site, options: dict[str, str], topic: str) -> int | None:
    reports: list[Any] = []
    producer = Producer(options)
    producer.produce(topic, b"x", on_delivery=lambda error, _: reports.append(error))
    assert producer.flush(PATIENCE_SECONDS) == 0
    (error,) = reports
    return None if error is None else error.code()


def delete(site: Site, options: dict[str, str], topic: str) -> int | None:
    """Delete all records of a partition."""
    admin, place = AdminClient({**options}), TopicPartition(topic, 0, OFFSET_END)
    return refused(admin.delete_records([place], request_timeout=30)[place])


def alter(site: Site, options: dict[str, str], topic: str) -> int | None:
    """Let Kafka keep records for a shorter time."""
    admin, resource = AdminClient({**options}), ConfigResource(ConfigResource.Type.TOPIC, topic)
    sets = AlterConfigOpType.SET
    resource.add_incremental_config(ConfigEntry("retention.ms", "1000", incremental_operation=sets))
    return refused(admin.incremental_alter_configs([resource], request_timeout=30)[resource])


def refused(asked: Future[Any]) -> int | None:
    try:
        asked.result(PATIENCE_SECONDS)
    except KafkaException as error:
        return int(error.args[0].code())
    return None


def be(site: Site, options: dict[str, str], transactional_id: str) -> int | None:
    producer = Producer({**options, "transactional.id": transactional_id})
    try:
        producer.init_transactions(PATIENCE_SECONDS)
    except KafkaException as error:
        return int(error.args[0].code())
    return None


def test_a_producer_and_its_agent_need_no_more_than_they_are_granted(site: Site) -> None:
    user = site.broker.users.login("orders")
    with TransactionProducer(
        "orders", site.broker.bootstrap, Silent(), topic_prefix=site.names.prefix, kafka=user
    ) as producer:
        assert producer.agent is not None
        with producer.transaction(Message(f"{site.real}.placed", b"x")) as transaction:
            pass
        assert producer.agent.wait_ready(PATIENCE_SECONDS)
        assert transaction.offset >= 0


def test_a_producer_that_may_not_see_its_topic_says_so_once_and_goes_on(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    user, real = site.broker.users.login("orders"), f"{site.real}-pay"
    with TransactionProducer(
        "orders",
        site.broker.bootstrap,
        checks_elsewhere=True,
        topic_prefix=site.names.prefix,
        real_topic_cache_ms=0,
        kafka=user,
    ) as producer:
        for _ in range(3):
            assert producer.begin(Message(real, b"x")).offset >= 0
    said = [line for line in caplog.messages if "may not see" in line]
    assert len(said) == 1
    assert f"may not see topic {real}: " in said[0]
    assert "Grant the group Describe and DescribeConfigs on it" in said[0]


def test_a_producer_that_may_not_read_the_policy_says_so_once_and_goes_on(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    with TransactionProducer(
        "orders",
        site.broker.bootstrap,
        checks_elsewhere=True,
        topic_prefix=site.names.prefix,
        check_real_topics=False,
        kafka=site.broker.users.login("operator"),
    ) as producer:
        assert producer.begin(Message(f"{site.real}.placed", b"x")).offset >= 0
    said = [line for line in caplog.messages if "policy can't be read" in line]
    assert len(said) == 1
    assert "with --acls it grants group orders to read it" in said[0]


class Silent:
    def check_local_transaction(self, message: Message) -> None:
        return None


def test_rebuild_and_land_may_look_at_what_they_begin_with(site: Site) -> None:
    refuse_gaps(site.settings("resolver"))
    ends = rebuild_ends(site.settings("resolver"))
    assert {topic: set(of_topic) for topic, of_topic in ends.items()} == {
        site.names.half: {"0", "1"},
        site.names.resolution: {"0", "1"},
    }
    for user, kept in (("resolver", "half"), ("land", "half|check[.].*")):
        found = oldest_records(site.settings(user), f"{site.names.prefix}({kept})")
        assert (site.names.half, 0) in found
    assert (site.names.check("pay"), 0) in found
