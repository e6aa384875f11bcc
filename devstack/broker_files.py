"""The configuration of a Kafka broker: loopback only, all files in its own folder."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# All paths are relative to the folder, which is the broker's working directory, so its name needs no escaping.
_PROPERTIES = """\
process.roles={roles}
node.id={node}
controller.quorum.voters=1@127.0.0.1:{controller_port}
listeners=PLAINTEXT://127.0.0.1:{port}{controller}{more}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}{advertised}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT{protocols}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs=data
# No replication of internal topics, and one partition instead of fifty for the internal topics.
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
# After a crash the controller fences the new broker until the old one's session has expired (9 s by default).
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
num.network.threads=2
num.io.threads=4
# A mistyped topic is an error, and messages do not expire.
auto.create.topics.enable=false
log.retention.ms=-1
log.retention.bytes=-1
# A topic that declares a retention loses its old segments at once, and not after five minutes.
log.retention.check.interval.ms=1000
"""
_LOGGING = """\
status = error
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = logs/broker.log
appender.file.filePattern = logs/broker.log.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{ISO8601} %p %m (%c{1})%n
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 10MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 3
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
logger.server.name = kafka.server
logger.server.level = info
"""


@dataclass(frozen=True, kw_only=True)
class Listeners:
    """Listeners on the loopback interface, which clients address as ``localhost``."""

    protocols: Mapping[str, str] = field(default_factory=dict)
    """Name, in capitals, to ``SSL``, ``SASL_SSL`` and so on."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """Further properties of the broker, such as ``listener.name.<name>.ssl.keystore.location``."""
    users: tuple[str, ...] = ()
    """Of SCRAM, as for ``kafka-storage format --add-scram``."""
    jvm_options: tuple[str, ...] = ()


def write(
    folder: Path,
    *,
    node: int,
    port: int,
    controller_port: int,
    listeners: Listeners,
    listener_ports: Mapping[str, int],
) -> None:
    """Write ``server.properties`` and ``log4j2.properties``.

    Args:
        folder: The broker's folder, which has to be its working directory.
        node: Its id; the first one is the controller of the cluster, too.
        controller_port: The port of the controller.
        listeners: Those besides the one of ``port``.
        listener_ports: The port of each.
    """
    first = node == 1
    settings = _PROPERTIES.format(
        roles="broker,controller" if first else "broker",
        node=node,
        port=port,
        controller_port=controller_port,
        controller=f",CONTROLLER://127.0.0.1:{controller_port}" if first else "",
        more="".join(f",{name}://127.0.0.1:{listener_ports[name]}" for name in listeners.protocols),
        advertised="".join(f",{name}://localhost:{listener_ports[name]}" for name in listeners.protocols),
        protocols="".join(f",{name}:{protocol}" for name, protocol in listeners.protocols.items()),
    )
    settings += "".join(f"{name}={value}\n" for name, value in listeners.properties.items())
    (folder / "server.properties").write_text(settings, encoding="utf-8")
    (folder / "log4j2.properties").write_text(_LOGGING, encoding="utf-8")
