"""The parts that the configuration wants embedded, and a supervisor of them alone (`python -m stack`)."""

from runtime.clock import SystemClock
from runtime.config import Config
from runtime.lifecycle import StopSignal, log_to_stderr
from stack.flink import flink_services, prepare_flink
from stack.kafka import kafka_service
from stack.layout import Layout
from stack.ports import embedded_addresses
from stack.redis import redis_service
from stack.service import Service
from stack.supervisor import Supervisor


def embedded_services(config: Config, layout: Layout) -> list[Service]:
    """Write the configuration of the parts in stack.parts and return how they are run, in starting order.

    Flink's folder is prepared also when Flink runs elsewhere: its clients need configuration and connector.
    """
    addresses = {address.part: address for address in embedded_addresses(config)}
    services = []
    if "kafka" in addresses:
        services.append(kafka_service(config, layout, addresses["kafka"]))
    if "redis" in addresses:
        services.append(redis_service(config, layout, addresses["redis"]))
    if "flink" in addresses:
        services.extend(flink_services(config, layout))
    else:
        prepare_flink(config, layout)
    return services


def supervisor_of(config: Config, stop: StopSignal) -> Supervisor:
    """Return the supervisor for this configuration's state folder."""
    return Supervisor(Layout.of(config), stop, SystemClock(), config.stack.start_timeout_s)


def supervise_parts(config: Config) -> None:
    """Run the embedded parts, without any process of ours, until told to stop."""
    log_to_stderr()
    stop = StopSignal().listen()
    with supervisor_of(config, stop) as supervisor:
        supervisor.start(embedded_services(config, Layout.of(config)))
        supervisor.watch()
