"""The Python function of the program `user-embedding`, as it runs in the Python worker of a TaskManager."""

import logging
from typing import TYPE_CHECKING

from jobs.encoder_follower import EncoderFollower
from runtime.config import KafkaConfig

if TYPE_CHECKING:
    import pandas as pd

NO_VECTOR = ""
"""Stands for a user without a vector, whose entry is to be deleted; null stands for a record to be passed over."""

_LOG = logging.getLogger("headrace.embedding")


class EncodeRecords:
    """Vectorised: a column of packed user records in, a column of packed user vectors out.

    It is pickled when the job is submitted, with where Kafka is, and follows `models` from its first call on, in the
    worker: a TaskManager needs the project's packages, but neither our configuration nor our environment.
    """

    def __init__(self, config: KafkaConfig) -> None:
        self._follower = EncoderFollower(config)

    def __call__(self, records: "pd.Series[bytes]") -> "pd.Series[str]":
        """Return for each record its user's vector, `NO_VECTOR` where they have none, null to pass it over.

        Passed over is everything as long as no encoder exists, and a record that is damaged or of another format.
        """
        import pandas as pd

        encoder = self._follower.current()
        if encoder is None:
            return pd.Series([None] * len(records), dtype=object)
        encoded = encoder.encode(records.to_list())
        if encoded.refused:
            place, why = next(iter(encoded.refused.items()))
            _LOG.error("%d of %d records passed over, the first: %s", len(encoded.refused), len(records), why)
        values: list[str | None] = [NO_VECTOR if vector is None else vector for vector in encoded.vectors]
        for place in encoded.refused:
            values[place] = None
        return pd.Series(values, dtype=object)
