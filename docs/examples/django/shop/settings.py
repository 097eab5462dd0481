"""What this example needs of Django's settings."""

import os
from pathlib import Path

SECRET_KEY = "of an example that has no sessions"  # noqa: S105
INSTALLED_APPS = ["shop"]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": Path(__file__).parents[1] / "shop.db",
    }
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True

KAFKA_BOOTSTRAP_SERVERS = os.environ.get("TXRESOLVER_BOOTSTRAP_SERVERS", "localhost:9092")
KAFKA_TOPIC_PREFIX = os.environ.get("KAFKA_TOPIC_PREFIX", "tx.")
