import socket

import pytest

from runtime.errors import ConfigError
from serving.metrics import ServingMetrics


def test_a_taken_port_is_named_with_the_key_that_chooses_another() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ConfigError, match=rf"metrics_port = {port} .*--set metrics_port=PORT, or 0"):
            ServingMetrics().serve(port)
