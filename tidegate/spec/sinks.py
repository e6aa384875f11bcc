"""Declarations of sinks: systems outside of the lake to which a flow sends the changes of a table."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from typing import Any, get_args

from tidegate.errors import FieldError
from tidegate.spec.checks import Layer, fits
from tidegate.spec.table import OtherTarget, Table

TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
"""Names that Kafka allows for topics, except ``.`` and ``..``."""
CLUSTER = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
"""Names of clusters, as in the settings ``kafka.<name>.…``."""
_NAME = re.compile(r"[a-z][a-z0-9_]*\.[a-z][a-z0-9_]{0,62}")
_FUNCTION = re.compile(r"[a-z][a-z0-9_]*:[a-z][a-z0-9_]*")


@dataclass(frozen=True)
class KafkaSink(OtherTarget):
    """A topic of a cluster of Kafka, which exists. It gets one record for each change of a row, at least once.

    The key of a record is the row's key as JSON, its value the row without the columns of the platform, or NULL for a delete.
    """

    topic: str
    _: dataclasses.KW_ONLY
    cluster: str = "default"
    """Its name in the settings: ``kafka.<name>.servers``."""

    def __post_init__(self) -> None:
        check_cluster("KafkaSink", self.cluster)
        if not fits(TOPIC, self.topic) or self.topic in (".", ".."):
            raise FieldError("KafkaSink", "topic", self.topic, "letters, digits, '.', '_' and '-', at most 249")

    @property
    def name(self) -> str:
        """``kafka.<topic>``, or ``kafka.<topic>@<cluster>``: the name in messages, reports and Assets."""
        # No topic has an "@" in its name.
        return f"{self.layer}.{self.topic}" + (f"@{self.cluster}" if self.cluster != "default" else "")

    @property
    def layer(self) -> str:
        """What stands in place of the layer of a table."""
        return "kafka"

    def remembered(self) -> dict[str, Any]:
        """Nothing but the name."""
        return {}


@dataclass(frozen=True)
class FunctionSink(OtherTarget):
    """Whatever a function of the project writes to, for example a table of a database.

    The function takes the changes of a batch (`tidegate.changes`), at least once, and returns when all of them are stored.
    """

    name: str
    """``<system>.<what>``, for example ``postgres.orders``: the name in messages, reports and Assets."""
    _: dataclasses.KW_ONLY
    write: str
    """``<module>:<function>`` in ``spark_jobs``."""

    def __post_init__(self) -> None:
        if not fits(_NAME, self.name) or self.layer in ("kafka", *get_args(Layer)):
            allowed = (
                "'<system>.<what>' in lower case, as in 'postgres.orders', with a system other than a layer and kafka"
            )
            raise FieldError("FunctionSink", "name", self.name, allowed)
        if not fits(_FUNCTION, self.write):
            allowed = "'<module>:<function>' in spark_jobs, as in 'orders_out:upsert'"
            raise FieldError(f"FunctionSink {self.name!r}", "write", self.write, allowed)

    @property
    def layer(self) -> str:
        """What stands in place of the layer of a table."""
        return self.name.partition(".")[0]

    @property
    def function(self) -> str:
        """As declared."""
        return self.write

    def remembered(self) -> dict[str, Any]:
        """Nothing but the name: another function for the same system continues."""
        return {}


def check_cluster(owner: str, cluster: object) -> None:
    """Check the name of a cluster of Kafka. Raises FieldError."""
    if not isinstance(cluster, str) or not fits(CLUSTER, cluster):
        raise FieldError(owner, "cluster", cluster, "a name as in kafka.<name>.servers: lower case, digits and '_'")


Sink = KafkaSink | FunctionSink
Target = Table | Sink
