"""What comes from outside is shown as it is, and cannot draw, colour or steer."""

from io import StringIO

import pytest
from rich.console import Console
from typer.testing import CliRunner

from cli.demo_screen import show_answer
from cli.main import app
from cli.plain import plain, printable
from cli.recommend import show
from cli.status import table_of
from evaluation.live import Answered, Question
from runtime.config import load_config
from schemas.recommendation import AnswerError, Recommendation, RecommendedItem
from stack.doctor import Check
from stack.state import ServiceState, StackState
from tests.builders import NOW_MS, request_of

HOSTILE = ("[/]", "[bold]x[/bold]", "[red", "\x1b[31mred")


def shown(text: str) -> str:
    return text.replace("\x1b", "\ufffd")


def answer_full_of(text: str, error: AnswerError | None = None) -> Recommendation:
    return Recommendation(
        request_id="r",
        ts=NOW_MS,
        user_id=text,
        items=(RecommendedItem(item_id=f"i{text}", score=1.0, propensity=1.0, reasons=(f"r{text}",)),),
        final=True,
        tier="light",
        model=f"m{text}",
        model_version=f"v{text}",
        precision="fp32",
        route_reason=f"because{text}",
        degradations=(f"d{text}",),
        stage_ms={f"s{text}": 1.0},
        error=error,
    )


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Amélie 🎬 👩‍🚀 [1]", "Amélie 🎬 👩‍🚀 [1]"),
        ("a\x1b[31m\nb\x9b\x7f", "a\ufffd[31m\ufffdb\ufffd\ufffd"),
        ("a\u202eb", "a\ufffdb"),
        ("a\udcffb", "a\ufffdb"),
    ],
)
def test_only_what_steers_a_terminal_or_cannot_be_written_is_replaced(text: str, expected: str) -> None:
    assert printable(text) == expected
    assert plain(text).plain == expected


@pytest.mark.parametrize("text", HOSTILE)
def test_an_answer_is_shown_as_it_came(
    text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("cli.titles.read_titles", lambda _config, ids: dict.fromkeys(ids, f"t{text}"))
    show(load_config(), answer_full_of(text), 1.0, explain=True)
    output = capsys.readouterr().out
    for mark in ("i", "r", "m", "v", "because", "d", "s", "t"):
        assert mark + shown(text) in output
    show(load_config(), answer_full_of(text, AnswerError(code="c", message=f"e{text}")), 1.0, explain=True)
    assert f"c: e{shown(text)}" in capsys.readouterr().out


@pytest.mark.parametrize("text", HOSTILE)
def test_an_answer_of_the_demo_is_shown_as_it_came(text: str) -> None:
    question = Question(request_of(), 0, 0.0, "target", 0, (), None)
    screen = StringIO()
    titles = {f"i{text}": f"t{text}", "target": f"next{text}"}
    show_answer(Console(file=screen, width=300), Answered(question, answer_full_of(text), 1.0), titles)
    for mark in ("User ", "because", "m", "t", "r", "next"):
        assert mark + shown(text) in screen.getvalue()


@pytest.mark.parametrize("text", HOSTILE)
def test_a_process_is_shown_with_the_address_that_it_has(text: str) -> None:
    screen = StringIO()
    state = StackState((ServiceState(name="redis", condition="ready", address=f"unix:///{text}"),))
    Console(file=screen, width=300).print(table_of(state))
    assert f"unix:///{shown(text)}" in screen.getvalue()
    assert "ready" in screen.getvalue()


@pytest.mark.parametrize("text", HOSTILE)
def test_a_finding_of_the_doctor_is_shown_as_it_is(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stack.doctor.examine", lambda _config: [Check("disk", f"f{text}", f"r{text}")])
    result = CliRunner().invoke(app, ["doctor"])
    assert result.exit_code == 1
    assert f"f{shown(text)}" in result.stdout
    assert f"r{shown(text)}" in result.stdout
