"""What can be wrong with a message.

MessageError                what: a message from outside cannot be used; `code` names the way
|-- MissingValue            null or empty value
|-- TooLarge                longer than the codec accepts
|-- NotJson                 not one JSON text (truncated, trailing bytes, NaN, bad UTF-8)
|-- NotAnObject             JSON, but an array, a string, a number ...
|-- MissingField            a required field is absent (keys are case-sensitive)
|-- WrongType               a field has another JSON type
|-- InvalidId               an id is empty, too long or holds control characters
|-- OutOfRange              a number or a list is outside its bounds
|-- UnknownValue            not one of the values that the field may have
|-- TimestampInSeconds      ts looks like seconds since the epoch, not milliseconds
|-- TimestampInFuture       ts is further ahead of the clock than the tolerance
|-- WrongKey                the message's key is not the id in its value
|-- DuplicateEvent          an event_id that was accepted shortly before
`-- UnreadableRecord        a packed record is truncated or of another format
"""

from typing import ClassVar

MAX_QUOTED_CHARS = 500
"""Of a complaint, where it is written down or sent: it may quote what it found, up to half a megabyte."""


class MessageError(ValueError):
    """A message from outside cannot be used.

    Raised by the codec and the gate; the operator's action is in the text, the reason code of the dead letter or the
    error answer is `code`.
    """

    code: ClassVar[str] = "invalid_message"


class MissingValue(MessageError):
    """The message has no value, or an empty one."""

    code = "missing_value"


class TooLarge(MessageError):
    """The value is longer than the codec accepts."""

    code = "too_large"


class NotJson(MessageError):
    """The value is not exactly one JSON text in UTF-8."""

    code = "not_json"


class NotAnObject(MessageError):
    """The value is JSON, but not an object."""

    code = "not_an_object"


class MissingField(MessageError):
    """A required field is absent."""

    code = "missing_field"


class WrongType(MessageError):
    """A field has another JSON type than the schema gives it."""

    code = "wrong_type"


class InvalidId(MessageError):
    """An id is empty, longer than 256 bytes, or holds control characters."""

    code = "invalid_id"


class OutOfRange(MessageError):
    """A number or the length of a list is outside its bounds."""

    code = "out_of_range"


class UnknownValue(MessageError):
    """A field has a value that is not one of those it may have."""

    code = "unknown_value"


class TimestampInSeconds(MessageError):
    """`ts` looks like seconds since the epoch."""

    code = "timestamp_in_seconds"


class TimestampInFuture(MessageError):
    """`ts` is further ahead of the clock than the tolerance."""

    code = "timestamp_in_future"


class WrongKey(MessageError):
    """The key of a message in a compacted topic is not the id in its value: the wrong entry would be replaced."""

    code = "wrong_key"


class DuplicateEvent(MessageError):
    """The event was accepted before, under the same event_id."""

    code = "duplicate_event"


class UnreadableRecord(MessageError):
    """A packed record is truncated or of another format."""

    code = "unreadable_record"


CODES = tuple(error.code for error in MessageError.__subclasses__())
"""Every reason code that a dead letter can have."""
