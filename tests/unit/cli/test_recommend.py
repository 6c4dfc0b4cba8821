import pytest
from typer.testing import CliRunner

from cli.main import app
from cli.recommend import MAX_K, MAX_TIMEOUT_MS
from runtime.errors import ConfigError
from schemas.codec import decode, encode
from schemas.errors import InvalidId, MessageError
from schemas.request import Request
from tests.builders import request_of


@pytest.fixture(autouse=True)
def _nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: object, **_named: object) -> None:
        pytest.fail("a request was about to be sent")

    monkeypatch.setattr("serving.client.recommendation_client", fail)


@pytest.mark.parametrize(
    ("option", "value", "text"),
    [
        ("--k", "0", "'--k'"),
        ("--k", str(MAX_K + 1), "'--k'"),
        ("--timeout-ms", "0", "'--timeout-ms'"),
        ("--model", "gbdt", "'cf'"),
    ],
)
def test_an_option_out_of_its_range_is_refused_with_its_name(option: str, value: str, text: str) -> None:
    result = CliRunner().invoke(app, ["recommend", "--user", "u", option, value])
    assert result.exit_code == 2
    assert text in result.output


@pytest.mark.parametrize(
    ("user", "error"), [("", InvalidId), ("a\tb", InvalidId), ("é" * 200, InvalidId), ("a\udcffb", ConfigError)]
)
def test_a_user_that_the_worker_would_refuse_is_not_sent(user: str, error: type[Exception]) -> None:
    result = CliRunner().invoke(app, ["recommend", "--user", user])
    assert isinstance(result.exception, error)


def test_the_ranges_are_those_of_a_request() -> None:
    most = request_of(k=MAX_K, timeout_ms=MAX_TIMEOUT_MS)
    assert decode(encode(most), Request) == most
    for beyond in (request_of(k=MAX_K + 1), request_of(timeout_ms=MAX_TIMEOUT_MS + 1)):
        with pytest.raises(MessageError):
            decode(encode(beyond), Request)
