"""Data Docs: for every judged batch a page that Great Expectations renders, and an index of them for each pipeline.

A page shows rules and counts, never a value of the data: the results it is made from hold none. Old pages are never
rendered again, and the index shows the newest ones, so a site costs the same after a thousand runs as after one.
"""

from __future__ import annotations

import html
import json
import os
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tidegate.report import now
from tidegate.spark.gate.conditions import render_page

if TYPE_CHECKING:
    from pathlib import Path

    from great_expectations.core import ExpectationSuiteValidationResult

    from tidegate.report import Verdict

SHOWN = 200
"""How many of the newest batches the index lists; the pages of older ones stay where they are."""

_HISTORY = "history.jsonl"
_LINE_AT_MOST = 2_000
"""Bytes of one line of the history, generously: only the end of the file is read."""

_GX_LINKS = re.compile(r'href="(?:\.\./)+(?:index|expectations/[^"]*)\.html"')
"""Where GX's pages point in a site that GX itself lays out, with pages that ours does not have."""

_INDEX = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Data quality: {title}</title>
<style>
 body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; }}
 table {{ border-collapse: collapse; width: 100%; }}
 th, td {{ text-align: left; padding: .35rem .7rem; border-bottom: 1px solid #ddd; vertical-align: top; }}
 .passed {{ color: #1a7f37; }} .split {{ color: #9a6700; }} .refused {{ color: #cf222e; font-weight: 600; }}
</style></head><body>
<h1>Data quality: {title}</h1>
<p>One line for each batch that a gate judged, newest first. <em>passed</em>: every row went on; <em>split</em>: the
rows that broke a critical or warning rule are in quarantine; <em>refused</em>: the target is untouched and the batch
waits. These pages hold counts only; the rows themselves are in the quarantine table.</p>
<table><thead><tr><th>Judged (UTC)</th><th>Flow</th><th>Run</th><th>Batch</th><th>Outcome</th><th>Rules met</th>
<th>Rules not met</th></tr></thead><tbody>
{lines}
</tbody></table></body></html>
"""


def publish(results: ExpectationSuiteValidationResult, site: Path, *, verdict: Verdict, run_key: str) -> Path:
    """Add the page of one judged batch to a pipeline's site.

    A batch that is judged again in the same run gets its page anew.

    Args:
        results: What `SuiteGate.judge` kept in ``last_result``.
        site: The pipeline's folder, `Layout.docs`; made if it is not there.
        verdict: What that judgement said.
        run_key: The run that judged, as the folder of its reports is called.

    Returns:
        The site's ``index.html``.
    """
    page = f"{verdict.flow}/{run_key}-batch-{verdict.batch_id}.html"
    (site / verdict.flow).mkdir(parents=True, exist_ok=True)
    body = render_page(results, f"{verdict.flow}, batch {verdict.batch_id}, run {run_key}")
    _write(site / page, _GX_LINKS.sub('href="../index.html"', body))
    _remember(site, page, verdict, run_key)
    lines = [_line(entry) for entry in _newest(site)]
    _write(site / "index.html", _INDEX.format(title=html.escape(site.name), lines="\n".join(lines)))
    return site / "index.html"


def _remember(site: Path, page: str, verdict: Verdict, run_key: str) -> None:
    entry = {
        "at": now(),
        "flow": verdict.flow,
        "run": run_key,
        "batch": verdict.batch_id,
        "outcome": verdict.outcome,
        "rules": len(verdict.results),
        "met": sum(result.success for result in verdict.results),
        "unmet": [result.told() for result in verdict.results if not result.success],
        "page": page,
    }
    line = json.dumps(entry)
    if len(line) >= _LINE_AT_MOST:
        line = json.dumps({**entry, "unmet": []})
    with (site / _HISTORY).open("a", encoding="utf-8") as history:
        history.write(line + "\n")


def _newest(site: Path) -> list[dict[str, Any]]:
    """The newest batches, newest first, each page once; a line that was cut off by a crash is left out."""
    with (site / _HISTORY).open("rb") as history:
        size = history.seek(0, os.SEEK_END)
        history.seek(max(0, size - SHOWN * _LINE_AT_MOST))
        lines = history.read().decode("utf-8", errors="replace").splitlines()
    entries: dict[str, dict[str, Any]] = {}
    for line in reversed(lines):
        try:
            entry = json.loads(line)
        except json.JSONDecodeError:
            continue
        entries.setdefault(entry["page"], entry)
    return list(entries.values())[:SHOWN]


def _line(entry: dict[str, Any]) -> str:
    outcome = html.escape(entry["outcome"])
    unmet = "<br>".join(html.escape(told) for told in entry["unmet"])
    cells = (
        html.escape(entry["at"][:19].replace("T", " ")),
        html.escape(entry["flow"]),
        html.escape(entry["run"]),
        f'<a href="{quote(entry["page"])}">{entry["batch"]}</a>',
        f'<span class="{outcome}">{outcome}</span>',
        f"{entry['met']} of {entry['rules']}",
        unmet,
    )
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def _write(path: Path, text: str) -> None:
    """So that a reader sees the old page or the new one, never half of one."""
    draft = path.with_suffix(".tmp")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)
