"""The embedded Kafka: one broker that is its own controller (KRaft)."""

import base64
import json
import subprocess
import uuid
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from runtime.config import Config, KafkaConfig
from runtime.errors import StackError
from runtime.kafka.clients import MAX_MESSAGE_BYTES, client_settings
from stack.jars import cached_jars
from stack.java import JAVA_ENVIRONMENT, java_command
from stack.layout import Layout
from stack.ports import Address, free_port
from stack.service import Service, inherited_environment
from stack.templates import render

FORMAT_TIMEOUT_S = 60
PROBE_TIMEOUT_S = 1.0


def kafka_service(config: Config, layout: Layout, address: Address) -> Service:
    """Write the broker's configuration, format its folder at the first start, and return how it is run."""
    data = layout.folder("kafka", "data")
    properties = render(
        "kafka.properties",
        layout.root / "kafka" / "server.properties",
        port=address.port,
        controller_port=free_port(),
        data=json.dumps(str(data))[1:-1],  # Java reads properties as Latin-1, with JSON's escapes
        max_message_bytes=MAX_MESSAGE_BYTES,
    )
    logging = render("kafka-log4j.properties", layout.root / "kafka" / "log4j2.properties")
    jars = cached_jars(config.cache_dir, "kafka")
    options = (f"-Dlog4j2.configurationFile={logging}",)
    if not (data / "meta.properties").is_file():
        _format(jars, options, properties)
    heap = f"-Xmx{config.stack.kafka_heap_mb}m"
    return Service(
        name="kafka",
        argv=java_command("kafka.Kafka", jars, (heap, *options), (str(properties),)),
        env=inherited_environment() | JAVA_ENVIRONMENT | {"MALLOC_ARENA_MAX": "2"},
        probe=lambda _started_ms: kafka_answers(config.kafka),
        address=config.kafka.bootstrap_servers,
    )


def kafka_answers(config: KafkaConfig) -> bool:
    """Return whether a broker at the configured address tells its metadata."""
    # That nobody listens yet is what is being asked, not something to be logged.
    admin = AdminClient(client_settings(config) | {"log_level": 0})
    try:
        return bool(admin.list_topics(timeout=PROBE_TIMEOUT_S).brokers)
    except KafkaException:
        return False


def _format(jars: list[Path], options: tuple[str, ...], properties: Path) -> None:
    arguments = ("format", "--cluster-id", _new_cluster_id(), "--config", str(properties))
    command = java_command("kafka.tools.StorageTool", jars, options, arguments)
    env = inherited_environment() | JAVA_ENVIRONMENT
    done = subprocess.run(command, capture_output=True, text=True, timeout=FORMAT_TIMEOUT_S, check=False, env=env)
    if done.returncode != 0:
        raise StackError(f"Kafka cannot prepare its folder (see {properties}):\n{done.stdout}{done.stderr}")


def _new_cluster_id() -> str:
    """A random UUID as Kafka writes them: 22 characters of URL-safe base64, the first not a dash."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text
