"""Submits Flink programs by name: `python -m jobs.submit user-record leaderboards`.

One process, hence one client JVM, for all of them: starting it is most of what a submission costs.
"""

import sys

from jobs import leaderboards, user_record
from jobs.flink_environment import table_environment
from runtime.clock import SystemClock
from runtime.config import load_config

PROGRAMS = {user_record.JOB_NAME: user_record.submit, leaderboards.JOB_NAME: leaderboards.submit}


def main(names: list[str]) -> None:
    """Submit the programs `names`, in that order."""
    config = load_config()
    for name in names:
        PROGRAMS[name](table_environment(config, name), config, SystemClock().now_ms())


if __name__ == "__main__":
    main(sys.argv[1:])
