"""The shop's tables; the second operation is `TransactionLog().ddl("sqlite")`, printed once."""

from django.db import migrations, models

TRANSACTION_LOG = """
CREATE TABLE transaction_log (
    transaction_id VARCHAR(128) NOT NULL,
    committed BOOLEAN NOT NULL,
    written_at BIGINT NOT NULL,
    PRIMARY KEY (transaction_id)
);
CREATE INDEX transaction_log_written_at ON transaction_log (written_at);
"""


class Migration(migrations.Migration):
    """Orders, and the transaction log."""

    initial = True
    operations = [  # noqa: RUF012 - as Django writes them
        migrations.CreateModel(
            "Order",
            [
                ("id", models.BigAutoField(primary_key=True)),
                ("item", models.CharField(max_length=80)),
            ],
        ),
        migrations.RunSQL(TRANSACTION_LOG, "DROP TABLE transaction_log"),
    ]
