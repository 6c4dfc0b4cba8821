"""A JobManager that answers what a test wants."""

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from jobs.cluster import Identity
from runtime.config import load_config
from stack.ports import LOOPBACK


class Cluster:
    """Answers each (method, path) with what it was given; keeps what it was asked and sent."""

    def __init__(self) -> None:
        self.answers: dict[tuple[str, str], tuple[int, Any]] = {}
        self.asked: list[tuple[str, str]] = []
        self.sent: list[Any] = []
        self.delay_s = 0.0
        cluster = self

        class Handler(BaseHTTPRequestHandler):
            def _answer(self) -> None:
                cluster.asked.append((self.command, self.path))
                length = int(self.headers.get("Content-Length") or 0)
                if length:
                    cluster.sent.append(json.loads(self.rfile.read(length)))
                time.sleep(cluster.delay_s)
                status, answer = cluster.answers.get((self.command, self.path), (404, {"errors": ["not found"]}))
                self.send_response(status)
                self.end_headers()
                self.wfile.write(json.dumps(answer).encode())

            do_GET = do_POST = do_PATCH = _answer  # noqa: N815

            def log_message(self, *_arguments: Any) -> None:
                pass

        self.server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
        rest_url = f"http://{LOOPBACK}:{self.server.server_port}"
        self.config = load_config(overrides={"flink": {"rest_url": rest_url}}).flink


def overview(*jobs: tuple[str, str, str]) -> Any:
    """The cluster's list of jobs, each a (job id, name, state) with one task."""
    tasks = {"running": 1, "total": 1}
    return {"jobs": [{"jid": j, "name": n, "state": s, "start-time": 5, "tasks": tasks} for j, n, s in jobs]}


def carrying(identity: Identity) -> Any:
    """What the cluster says of a job that carries `identity`."""
    own = dict(pair.split(":") for pair in identity.parameters().split(","))
    return {"execution-config": {"job-parallelism": identity.parallelism, "user-config": own}}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    cluster = Cluster()
    thread = threading.Thread(target=cluster.server.serve_forever, args=(0.01,))
    thread.start()
    yield cluster
    cluster.server.shutdown()
    thread.join()
    cluster.server.server_close()
