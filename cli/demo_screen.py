"""How the demo's report looks on the screen."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cli.plain import plain

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from evaluation.live import Answered
    from evaluation.report import Report, Row

SHOWN_ITEMS = 3

LEGEND = (
    "popular: nDCG@10 and HR@10 of plain popularity on the same requests; p50, p99: request to answer in ms; "
    "age: ms since the event that the answer's state had seen last (median); "
    "fresh: answers that had seen everything the user had done"
)


def show(console: "Console", report: "Report", answered: "Sequence[Answered]", titles: Mapping[str, str]) -> None:
    """Print the tables, three real answers and the balance."""
    from evaluation.report import examples

    console.print()
    console.print(_table("by tier", report.tiers, report.all))
    console.print(_table("by past events of the user", report.activity, report.all))
    console.print(LEGEND, style="dim", highlight=False)
    console.print("\nOf each tier the answer that placed the right film best:")
    for each in examples(answered):
        show_answer(console, each, titles)
    _show_balance(console, report)


def _table(title: str, groups: "Mapping[str, Row]", overall: "Row") -> "Table":
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, collapse_padding=True, pad_edge=False)
    table.add_column("")
    for column in ("asked", "nDCG@10", "HR@10", "popular", "HR@10", "p50", "p99", "age", "fresh"):
        table.add_column(column, justify="right", no_wrap=True)
    for name, row in (*groups.items(), ("all", overall)):
        table.add_row(
            plain(name),
            str(row.requests),
            f"{row.ndcg10:.3f}",
            f"{row.hr10:.3f}",
            f"{row.popularity_ndcg10:.3f}",
            f"{row.popularity_hr10:.3f}",
            f"{row.p50_ms:.1f}",
            f"{row.p99_ms:.1f}",
            "-" if row.feature_age_ms is None else f"{row.feature_age_ms:.0f}",
            f"{row.fresh_share:.0%}",
            style="bold" if name == "all" else None,
            end_section=name != "all" and name == list(groups)[-1],
        )
    return table


def show_answer(console: "Console", each: "Answered", titles: Mapping[str, str]) -> None:
    """Print the beginning of one real answer, and what the user in fact came to next."""
    from rich.text import Text

    answer, target = each.answer, each.question.target
    tier = plain(answer.tier, "bold")
    reason = plain(f" tier ({answer.route_reason}), by {answer.model}:")
    console.print(Text.assemble("\n", plain(f"User {answer.user_id}, "), tier, reason))
    for place, item in enumerate(answer.items[:SHOWN_ITEMS], start=1):
        hit = "  <- came to this next" if item.item_id == target else ""
        line = plain(f"  {place}. {titles.get(item.item_id, item.item_id)}: {'; '.join(item.reasons)}")
        console.print(line.append(hit, "green"))
    shown = {item.item_id for item in answer.items[:SHOWN_ITEMS]}
    if target not in shown:
        console.print(plain(f"  in fact came to {titles.get(target, target)} next", "dim"))


def _show_balance(console: "Console", report: "Report") -> None:
    dead = ", ".join(f"{code} {count}" for code, count in report.dead_letters.items()) or "none"
    console.print(
        f"\n{report.events} events produced, {report.records} records built; {report.requests} requests, "
        f"{report.answers} answered, {report.duplicates} answered twice; dead letters: {dead}\n"
        f"{report.recounted} users and items recounted from the log, {report.miscounted} differ from what Redis holds\n"
        f"first recommendation after {report.first_recommendation_s:.0f} s, live part {report.live_s:.0f} s, "
        f"all in all {report.total_s:.0f} s; Flink jobs: {', '.join(report.flink_jobs)}",
        markup=False,
        highlight=False,
    )
