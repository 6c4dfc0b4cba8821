"""The first stage: what is a request, what gets an error answer, what is a dead letter, what was answered before."""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

from schemas.codec import check_not_in_future, decode
from schemas.errors import MAX_QUOTED_CHARS, MessageError
from schemas.recommendation import AnswerError, Recommendation
from schemas.request import Request, RequestIdentity, RequestOwner


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A message that names no request_id to answer: a dead letter with this error."""

    error: MessageError


@dataclass(frozen=True, slots=True)
class Repeated:
    """A request_id that has its final answer already; it gets no second one."""

    request_id: str


Accepted = Request | Recommendation | Repeated | Unreadable


class AnsweredRequests:
    """The request_ids that were answered lately, at most `capacity`; the oldest are forgotten first."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._ids: OrderedDict[str, None] = OrderedDict()

    def add(self, request_ids: Iterable[str]) -> None:
        """Remember that these have their final answer."""
        for request_id in request_ids:
            self._ids[request_id] = None
            self._ids.move_to_end(request_id)
        while len(self._ids) > self._capacity:
            self._ids.popitem(last=False)

    def __contains__(self, request_id: str) -> bool:
        return request_id in self._ids


def accept(value: bytes | None, answered: AnsweredRequests, now_ms: int, future_tolerance_ms: int) -> Accepted:
    """Return the request in `value`, or its error answer, or why it gets none.

    An invalid request whose request_id can be read is answered with an error; so is one whose deadline has passed, or
    whose `ts` is more than `future_tolerance_ms` ahead.
    """
    try:
        request = decode(value, Request)
        check_not_in_future(request.ts, now_ms, future_tolerance_ms)
    except MessageError as error:
        return _refused(value, error, answered, now_ms)
    if request.request_id in answered:
        return Repeated(request.request_id)
    if now_ms > request.deadline_ms:
        late = now_ms - request.deadline_ms
        message = f"the deadline passed {late} ms before the request was read; send it sooner or raise timeout_ms"
        return error_answer(request.request_id, request.user_id, "deadline_exceeded", message, now_ms)
    return request


def error_answer(request_id: str, user_id: str | None, code: str, message: str, now_ms: int) -> Recommendation:
    """Return the final answer of a request that gets no items."""
    return Recommendation(
        request_id=request_id,
        ts=now_ms,
        user_id=user_id,
        items=(),
        final=True,
        tier="none",
        model="none",
        model_version="none",
        precision="none",
        route_reason="not routed",
        error=AnswerError(code=code, message=message[:MAX_QUOTED_CHARS]),
    )


def _refused(
    value: bytes | None, error: MessageError, answered: AnsweredRequests, now_ms: int
) -> Recommendation | Repeated | Unreadable:
    try:
        identity = decode(value, RequestIdentity)
    except MessageError:
        return Unreadable(error)
    if identity.request_id in answered:
        return Repeated(identity.request_id)
    return error_answer(identity.request_id, _owner(value), error.code, str(error), now_ms)


def _owner(value: bytes | None) -> str | None:
    try:
        return decode(value, RequestOwner).user_id
    except MessageError:
        return None
