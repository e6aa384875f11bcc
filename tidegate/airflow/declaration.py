"""The declaration of a pipeline as Markdown, for the documentation of its DAG in Airflow.

Airflow creates a new DAG version when the serialized DAG changes. The tasks are the same for different declarations, so the
declaration and its fingerprint are part of the DAG's documentation.
"""

from __future__ import annotations

from tidegate.json_codec import to_plain
from tidegate.project.fingerprints import fingerprint
from tidegate.project.resolution import ResolvedPipeline
from tidegate.schema.ddl import parse_ddl
from tidegate.spec import AfterTables, Contract, Flow, Pipeline


def describe(resolved: ResolvedPipeline) -> str:
    """The declaration as Markdown: errors, flows, gates, source schemas, and the fingerprint of the whole declaration."""
    pipeline = resolved.pipeline
    lines = [f"**`{each.flow.name}` cannot run.** {each.error.message}.\n" for each in resolved.flows if each.error]
    lines += [f"**Table `{each.name}` cannot run.** {each.error.message}.\n" for each in pipeline.invalid_tables]
    lines += [pipeline.description or f"The pipeline `{pipeline.name}`.", ""]
    lines += [f"Declared in `pipelines/{pipeline.name}.py`. Runs: {_schedule(pipeline)}.", ""]
    lines += [
        "| flow | reads | transform | gate | writes | checkpoint |",
        "| --- | --- | --- | --- | --- | --- |",
        *(_row(flow) for flow in pipeline.flows),
        "",
    ]
    for flow in pipeline.flows:
        if (source := flow.landed_source) is not None:
            lines += [f"Fields of one source record of `{flow.name}`; contract: {_contract(source.contract)}.", ""]
            lines += ["```sql", _dedent(source.schema), "```", ""]
            described = [
                f"- `{column.name}`: {text}"
                for column in parse_ddl("schema", source.schema)
                if (text := source.names.description(column.name))
            ]
            lines += [*described, ""] if described else []
    return "\n".join([*lines, f"Declaration `{fingerprint(to_plain(pipeline))}`."])


def _schedule(pipeline: Pipeline) -> str:
    match pipeline.schedule:
        case None:
            return "by hand only"
        case AfterTables(tables, intervals):
            what = "a complete interval of" if intervals else "new rows in"
            return f"after {what} {' or '.join(f'`{table}`' for table in tables)}"
        case cron:
            return f"`{cron}` ({pipeline.timezone}), from {pipeline.start_date}"


def _row(flow: Flow) -> str:
    gate = f"`{flow.gate.suite}`" if flow.gate else "none"
    transform = f"`{flow.transform}`" if flow.transform else "none"
    source = "; ".join(each.describe() for each in flow.feeds or (flow.source,))
    cells = (f"**{flow.name}**", source, transform, gate, _target(flow), f"v{flow.checkpoint_version}")
    # An unescaped bar would end the cell.
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _contract(contract: Contract) -> str:
    overrides = [f"{name} `{mode}`" for name, mode in contract.column_modes().items()]
    return ", ".join([f"`{contract.mode}`", *overrides])


def _target(flow: Flow) -> str:
    replaced = f", whole scopes of {', '.join(flow.target.replace_by)}" if flow.target.replace_by else ""
    if flow.target.history:
        replaced = f", with the history of {', '.join(flow.target.scope)}"
    write_modes = {
        "append": "append",
        "upsert": f"upsert by {', '.join(flow.target.keys)}{replaced}; last by {', '.join(flow.target.sequence_by)}",
        "send": "every change of the table, at least once",
        "recompute": f"one row per {', '.join(flow.target.keys)}{replaced}",
    }
    return f"`{flow.target.name}`: {write_modes[flow.target.write_mode]}"


def _dedent(schema: str) -> str:
    return "\n".join(line.strip() for line in schema.strip().splitlines())
