"""A broker with TLS, SASL/SCRAM and ACLs, and users of it."""

from __future__ import annotations

import secrets
import subprocess
import uuid
from pathlib import Path
from typing import Any

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from typer.testing import CliRunner

from resolver.broker import Broker, Security
from resolver.broker.java import find_java
from resolver.cli.topics import app
from resolver.protocol import Names
from resolver.settings import Settings
from tests.support.patience import PATIENCE_SECONDS

MECHANISM = "SCRAM-SHA-512"
USERS = ("orders", "pay", "resolver", "land", "operator", "auditor", "stranger")
GROUPS = """
[groups.orders]
topics = ["{real}.*"]
principal = "User:orders"
[groups.pay]
topics = ["{real}-pay"]
principal = "User:pay"
fast = true
[groups."*"]
topics = []
"""
PRINCIPALS = [
    f"--{role}-principal=User:{role}" for role in ("resolver", "land", "operator", "auditor")
]
_JAAS = "org.apache.kafka.common.security.scram.ScramLoginModule required"


class Users:
    """The users of a secured broker, who are made as they are asked for: each has a password."""

    def __init__(self, folder: Path) -> None:
        self.certificate = folder / "certificate.pem"
        self._keystore = folder / "broker.p12"
        self._passwords = {"admin": secrets.token_hex(16)}
        self._secret = secrets.token_hex(16)
        _make_certificate(self._keystore, self._secret, self.certificate)

    def security(self) -> Security:
        """Return what the broker needs; its only user is `admin`, who may do everything."""
        password = self._passwords["admin"]
        return Security(
            properties={
                # The controller is asked by the broker alone, as nobody in particular.
                "listener.security.protocol.map": "CLIENTS:SASL_SSL,CONTROLLER:PLAINTEXT",
                "super.users": "User:admin;User:ANONYMOUS",
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "sasl.enabled.mechanisms": MECHANISM,
                "sasl.mechanism.inter.broker.protocol": MECHANISM,
                f"listener.name.clients.{MECHANISM.lower()}.sasl.jaas.config": (
                    f'{_JAAS} username="admin" password="{password}";'
                ),
                "ssl.keystore.type": "PKCS12",
                "ssl.keystore.location": self._keystore,
                "ssl.keystore.password": self._secret,
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": self.certificate,
            },
            format_arguments=("--add-scram", f"{MECHANISM}=[name=admin,password={password}]"),
            client=self.login("admin"),
        )

    def password(self, user: str) -> str:
        return self._passwords[user]

    def login(self, user: str) -> dict[str, str]:
        """Return the options of librdkafka with which a user logs in."""
        return {
            "security.protocol": "sasl_ssl",
            "ssl.ca.location": str(self.certificate),
            "sasl.mechanism": MECHANISM,
            "sasl.username": user,
            "sasl.password": self._passwords[user],
        }

    def add(self, admin: AdminClient, *names: str) -> None:
        """Make those who are missing; they may do nothing yet."""
        for name in set(names) - self._passwords.keys():
            self._passwords[name] = secrets.token_hex(16)
            info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
            change = UserScramCredentialUpsertion(name, info, self._passwords[name].encode())
            admin.alter_user_scram_credentials([change])[name].result(PATIENCE_SECONDS)


class SecuredBroker:
    """A running broker, its users, and settings of each of them under one prefix."""

    def __init__(self, broker: Broker, users: Users) -> None:
        self.bootstrap = broker.bootstrap
        self.users = users
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap, **users.login("admin")})

    def options(self, user: str) -> dict[str, str]:
        """Return the options of a client of that user."""
        return {"bootstrap.servers": self.bootstrap, **self.users.login(user)}

    def settings(self, user: str, prefix: str, queues: int = 2) -> Settings:
        return Settings(
            bootstrap_servers=self.bootstrap,
            topic_prefix=prefix,
            queues=queues,
            kafka=self.users.login(user),
        )

    def make_topics(self, *names: str) -> None:
        topics = [NewTopic(name, 1, 1) for name in names]
        for made in self.admin.create_topics(topics, operation_timeout=30).values():
            made.result(PATIENCE_SECONDS)


class Site:
    """A secured broker's topics under a prefix, with rights for each role."""

    def __init__(self, broker: SecuredBroker, folder: Path) -> None:
        self.broker = broker
        self.names = Names(f"t{uuid.uuid4().hex[:8]}.")
        self.real = f"real{uuid.uuid4().hex[:8]}"
        self.config = folder / "resolver.toml"
        self.config.write_text(GROUPS.format(real=self.real))
        broker.users.add(broker.admin, *USERS)
        broker.make_topics(f"{self.real}.placed", f"{self.real}-pay")

    def create(self, *options: str, user: str = "admin", bootstrap: str = "") -> Any:
        """Run `txresolver topics create`."""
        settings = {"topic_prefix": self.names.prefix, "queues": "2"}
        login = self.broker.users.login(user) if not bootstrap else {}
        settings |= {f"kafka.{name}": value for name, value in login.items()}
        sets = [f"--set={name}={value}" for name, value in settings.items()]
        servers = f"--bootstrap-servers={bootstrap or self.broker.bootstrap}"
        return CliRunner().invoke(
            app, ["create", f"--config={self.config}", servers, *sets, *options]
        )

    def settings(self, user: str) -> Any:
        return self.broker.settings(user, self.names.prefix)


def _make_certificate(keystore: Path, secret: str, certificate: Path) -> None:
    """Make a key and a certificate that it has signed itself, for this machine."""
    keytool = str(find_java().with_name("keytool"))
    store = ["-keystore", str(keystore), "-storepass", secret, "-storetype", "PKCS12"]
    name = ["-alias", "broker", "-dname", "CN=broker", "-ext", "san=ip:127.0.0.1"]
    kind = ["-keyalg", "EC", "-validity", "30"]
    _run(keytool, "-genkeypair", *name, *kind, *store)
    _run(keytool, "-exportcert", "-rfc", "-alias", "broker", "-file", str(certificate), *store)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE_SECONDS)
