"""What can go wrong around the pipeline.

HeadraceError               what: the command cannot go on; the text names the remedy
|-- ConfigError             the configuration has a wrong or unknown key
|-- KafkaError              a broker, topic or partition cannot be used
|-- StackError              a part of the embedded stack does not start, answer or stop
|-- StoreUnavailable        the feature store does not answer in time
|-- ArtifactError           a model artifact is damaged, foreign or newer
`-- DataError               a data set is missing, altered or unreadable
"""


class HeadraceError(Exception):
    """The command cannot go on. Its text says what happened, with which value, and what to do."""


class ConfigError(HeadraceError):
    """The configuration has a wrong or unknown key. Raised before anything starts."""


class KafkaError(HeadraceError):
    """A broker, a topic or a partition cannot be used."""


class StackError(HeadraceError):
    """A part of the embedded stack does not start, answer or stop."""


class StoreUnavailable(HeadraceError):
    """The feature store does not answer in time. Serving goes on without it and says so."""


class ArtifactError(HeadraceError):
    """A model artifact is damaged, foreign or newer than this program. The old model goes on."""


class DataError(HeadraceError):
    """A data set is missing, altered or unreadable."""
