"""The only module that uses private parts of Great Expectations (GX).

GX is pinned exactly, and a contract test compares every flag with the rows that GX counts, so that it fails if an upgrade
changes these parts. No GX context is created, because it is a singleton of the process: a metric graph over an execution
engine is enough, and leaves no state behind.

Longer than 300 lines: no other module may use those parts.
"""

from __future__ import annotations

import functools
import re
import textwrap
from string import Template
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException, PySparkException, PythonException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampType

from tidegate.advice import Edit, Either
from tidegate.errors import SpecError
from tidegate.spark.gate.rules import COUNTS_ONLY, STATISTICAL, Rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from great_expectations.core import ExpectationValidationResult
    from great_expectations.execution_engine.sparkdf_execution_engine import SparkDFExecutionEngine
    from great_expectations.validator.metric_configuration import MetricConfiguration


_BATCH = "batch"
_DESCRIPTION_LENGTH = 400
"""Maximum number of characters; a long set of values is truncated."""
_GX_VIEW = "tmp_view"
"""The temporary view that GX creates for a query over a batch, and does not drop."""


def build_expectation(kind: str, kwargs: dict[str, Any], severity: str, meta: dict[str, Any] | None) -> Any:
    """GX's object for one expectation of a suite. GX raises pydantic's ``ValidationError`` for invalid kwargs."""
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration
    from great_expectations.expectations.metadata_types import FailureSeverity

    import tidegate.spark.gate.custom  # noqa: F401 - registers them

    configuration = ExpectationConfiguration(type=kind, kwargs=kwargs, severity=FailureSeverity(severity), meta=meta)
    return configuration.to_domain_obj()


def describe(expectation: Any) -> str:
    """The description of an expectation in GX's Data Docs; it contains values of the suite, and none of the data.

    Of the few expectations with a table or graph, only the first sentence is used. Empty for the one expectation without
    a description in GX (a pair in a set).
    """
    from great_expectations.expectations.registry import get_renderer_impl
    from great_expectations.render.renderer.inline_renderer import InlineRenderer

    configuration = expectation.configuration
    contents: list[Any] = list(InlineRenderer(render_object=configuration).get_rendered_content())
    (atomic,) = (content for content in contents if content.name.startswith("atomic.prescriptive"))
    template = atomic.value.template
    params = {name: param["value"] for name, param in (atomic.value.params or {}).items()}
    if template is None:
        renderer: Any = get_renderer_impl(configuration.type, "renderer.prescriptive")
        first = renderer[1](configuration=configuration)[0]
        first = first if isinstance(first, dict) else first.to_json_dict()
        template, params = first["string_template"]["template"], first["string_template"]["params"]
    if template.startswith("$expectation_type"):
        return ""
    listed = re.sub(r"(\$\w+_\d+) (?=\$\w+_\d)", r"\1, ", template)
    whole = " ".join(re.sub(r"</?pre>", "", Template(listed).safe_substitute(params)).split())
    return textwrap.shorten(whole, _DESCRIPTION_LENGTH, placeholder=" …").replace(" % ", "\N{NO-BREAK SPACE}% ")


def build_engine(rows: DataFrame) -> SparkDFExecutionEngine:
    """An execution engine of GX over a batch.

    It uses the session of the frame: in foreachBatch that is a clone, and temporary views belong to a session. It does
    not persist the batch, because GX never unpersists.
    """
    engine = _engine_class()(persist=False, spark=rows.sparkSession)
    engine.load_batch_data(_BATCH, rows)
    return engine


@functools.cache
def _engine_class() -> type[SparkDFExecutionEngine]:
    """GX's engine with fewer aggregate queries; defined on first use, because importing GX takes seconds."""
    from great_expectations.core.id_dict import IDDict
    from great_expectations.execution_engine.sparkdf_execution_engine import SparkDFExecutionEngine
    from great_expectations.util import convert_to_json_serializable

    class OnePassEngine(SparkDFExecutionEngine):
        """Computes all aggregates in one query, after all other metrics.

        GX resolves its graph level by level, with a query for the aggregates of each level and each domain.
        """

        is_empty = False
        """Whether the batch has no rows, as in `flag_columns`: then every count is 0, and no query is needed."""

        def _process_direct_and_bundled_metric_computation_configurations(
            self, metric_fn_direct_configurations: list[Any], metric_fn_bundle_configurations: list[Any]
        ) -> dict[Any, Any]:
            bundled = [] if metric_fn_direct_configurations else metric_fn_bundle_configurations
            resolved: dict[Any, Any] = super()._process_direct_and_bundled_metric_computation_configurations(
                metric_fn_direct_configurations=metric_fn_direct_configurations, metric_fn_bundle_configurations=bundled
            )
            return resolved

        def resolve_metric_bundle(self, metric_fn_bundle: Iterable[Any]) -> dict[Any, Any]:
            """All aggregates in one query, with a branch of a union for each domain."""
            bundle = list(metric_fn_bundle)
            if self.is_empty:
                return {each.metric_configuration.id: 0 for each in bundle}
            domains: dict[Any, list[Any]] = {}
            for each in bundle:
                domains.setdefault(IDDict(each.compute_domain_kwargs or {}).to_id(), []).append(each)
            branches = []
            for number, members in enumerate(domains.values()):
                rows = self.get_domain_records(domain_kwargs=members[0].compute_domain_kwargs or {})
                columns = [each.metric_fn.alias(f"_{number}_{place}") for place, each in enumerate(members)]
                branches.append(rows.agg(*columns))
            if not branches:
                return {}
            whole = functools.reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), branches)
            # PySpark makes local times of instants, and an error of the first day of the year 1.
            instants = {
                each.name: F.col(each.name).cast("timestamp_ntz")
                for each in whole.schema
                if each.dataType == TimestampType()
            }
            values: dict[str, Any] = {}
            for row in whole.withColumns(instants).collect():
                values |= {name: value for name, value in row.asDict().items() if value is not None}
            return {
                each.metric_configuration.id: convert_to_json_serializable(data=values.get(f"_{number}_{place}"))
                for number, members in enumerate(domains.values())
                for place, each in enumerate(members)
            }

    return OnePassEngine


def flag_columns(rules: Sequence[Rule], rows: DataFrame) -> list[Column]:
    """A column for each row rule: whether the row breaks it. Never null, and true for exactly the rows that GX counts.

    GX's condition is valid only within its domain (``row_condition``, ``ignore_row_if``, nulls). Outside of it the
    condition may be null, true, or raise, so it is evaluated for rows of the domain only.

    Raises:
        SpecError: GX cannot build a condition, for example because a column is missing.
    """
    # GX counts the rows before it builds a condition, even if the condition does not need the count. An empty batch
    # avoids this query.
    empty: Any = build_engine(rows.limit(0))
    empty.is_empty = True
    plain = [rule for rule in rules if rule.type not in STATISTICAL]
    flags: dict[str, Column] = {}
    try:
        flags.update(_flags(plain, empty))
    except Exception:
        for rule in plain:
            flags.update(_named_flags(rule, empty))
    engine = build_engine(rows)
    for rule in rules:
        if rule.type in STATISTICAL:
            flags.update(_named_flags(rule, engine))
    return [flags[rule.name] for rule in rules]


def validate(rules: Sequence[Rule], engine: SparkDFExecutionEngine) -> list[ExpectationValidationResult]:
    """GX's result of each rule, with counts and without any value of the data.

    All metrics are resolved in one graph, so that GX bundles those of one domain into one Spark job. Errors are not
    translated here: see `explain`.
    """
    from great_expectations.validator.validation_graph import ValidationGraph

    graph = ValidationGraph(engine)
    required = [_dependencies(rule, engine) for rule in rules]
    try:
        for dependencies in required:
            for metric in dependencies.values():
                graph.build_metric_dependency_graph(metric, runtime_configuration=_runtime_configuration())
        metrics = _resolve(graph)
    finally:
        engine.spark.catalog.dropTempView(_GX_VIEW)
    return [
        _result(rule, {name: metrics[metric.id] for name, metric in dependencies.items()}, engine)
        for rule, dependencies in zip(rules, required, strict=True)
    ]


def explain(rules: Sequence[Rule], rows: DataFrame, error: Exception) -> BaseException:
    """The error to raise after `validate` raised. Finds the cause by validating the rules one by one.

    Args:
        rows: The batch without flags, because a flag that raises would make every read of the flagged rows raise.

    Returns:
        The error of reading the rows, if they cannot be read; otherwise a `SpecError` with the name of the expectation
        that raises; otherwise the original error (a lost executor, a full disk), without GX's wrapping.
    """
    try:
        rows.write.format("noop").mode("overwrite").save()
    except Exception as unreadable:
        return unreadable
    engine = build_engine(rows)
    for rule in rules:
        try:
            validate([rule], engine)
        except Exception as rule_error:
            return _spec_error(rule, rule_error)
    return _cause(error)


def _named_flags(rule: Rule, engine: SparkDFExecutionEngine) -> dict[str, Column]:
    """The flag of one rule; an error names the rule."""
    try:
        return _flags([rule], engine)
    except Exception as error:
        # From None: the cause may quote values of the data, which must not reach a log.
        raise _spec_error(rule, error) from None


def _flags(rules: Sequence[Rule], engine: SparkDFExecutionEngine) -> dict[str, Column]:
    from great_expectations.validator.metric_configuration import MetricConfiguration
    from great_expectations.validator.validation_graph import ValidationGraph

    graph = ValidationGraph(engine)
    flag_metrics: dict[str, MetricConfiguration] = {}
    for rule in rules:
        metric = rule.expectation.map_metric
        count = _dependencies(rule, engine)[f"{metric}.unexpected_count"]
        condition = MetricConfiguration(f"{metric}.condition", count.metric_domain_kwargs, count.metric_value_kwargs)
        graph.build_metric_dependency_graph(condition, runtime_configuration=_runtime_configuration())
        flag_metrics[rule.name] = condition
    metrics = _resolve(graph)
    return {name: _flag(metrics[condition.id], engine) for name, condition in flag_metrics.items()}


def _flag(metric: tuple[Column, dict[str, Any], dict[str, Any]], engine: SparkDFExecutionEngine) -> Column:
    condition, compute, accessor = metric
    within = _domain({**compute, **accessor}, engine)
    return F.coalesce(condition if within is None else F.when(within, condition), F.lit(False))


def _result(rule: Rule, metrics: dict[str, Any], engine: SparkDFExecutionEngine) -> ExpectationValidationResult:
    """GX's result of a rule, computed from metrics without values of the data.

    The observed value of a batch rule may be a value of the data (a maximum, a list), so the result of such a rule is
    reduced to success or failure. Counts are kept.
    """
    from great_expectations.core.result_format import ResultFormat
    from great_expectations.expectations.expectation_configuration import parse_result_format

    counts = rule.of_rows or rule.type in COUNTS_ONLY
    shape = parse_result_format(str((ResultFormat.BASIC if counts else ResultFormat.BOOLEAN_ONLY).value))
    raw = rule.expectation._validate(
        metrics=metrics, runtime_configuration={"result_format": shape}, execution_engine=engine
    )
    result: ExpectationValidationResult = rule.expectation._build_evr(raw_response=raw)
    if not counts:
        result.result = {}
    return result


def _dependencies(rule: Rule, engine: SparkDFExecutionEngine) -> dict[str, MetricConfiguration]:
    dependencies = rule.expectation.get_validation_dependencies(
        execution_engine=engine, runtime_configuration=_runtime_configuration()
    )
    return dict(dependencies.metric_configurations)


def _runtime_configuration() -> dict[str, Any]:
    # A new one for each call, because GX modifies it. BOOLEAN_ONLY collects no sample rows; GX must not catch exceptions.
    return {"result_format": {"result_format": "BOOLEAN_ONLY"}, "catch_exceptions": False}


def _resolve(graph: Any) -> Any:
    metrics, _ = graph.resolve(runtime_configuration=_runtime_configuration(), show_progress_bars=False)
    return metrics


def _domain(kwargs: dict[str, Any], engine: SparkDFExecutionEngine) -> Column | None:
    """The condition by which GX's ``get_domain_records`` filters rows; None if the rule applies to all rows."""
    parts = [F.expr(clause) for clause in _clauses(kwargs, engine)]
    columns = kwargs.get("column_list") or [kwargs[name] for name in ("column_A", "column_B") if name in kwargs]
    missing = [F.col(column).isNull() for column in columns]
    match kwargs.get("ignore_row_if"):
        case "both_values_are_missing" | "all_values_are_missing":
            parts.append(~_every(missing))
        case "either_value_is_missing" | "any_value_is_missing":
            parts.extend(~one for one in missing)
    return _every(parts) if parts else None


def _clauses(kwargs: dict[str, Any], engine: SparkDFExecutionEngine) -> Iterator[str]:
    from great_expectations.expectations.row_conditions import (
        Condition,
        PassThroughCondition,
        deserialize_row_condition,
    )

    condition = deserialize_row_condition(kwargs.get("row_condition"))
    if isinstance(condition, PassThroughCondition):
        yield condition.pass_through_filter
    elif isinstance(condition, Condition):
        yield str(engine.condition_to_filter_clause(condition))
    elif condition:
        yield condition
    for extra in kwargs.get("filter_conditions", ()):
        yield extra.condition


def _every(parts: Sequence[Column]) -> Column:
    whole = parts[0]
    for part in parts[1:]:
        whole = whole & part
    return whole


def _cause(error: BaseException) -> BaseException:
    """The error of Spark from which GX raised its own."""
    while not isinstance(error, PySparkException):
        inner = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        if inner is None:
            break
        error = inner
    return error


def _spec_error(rule: Rule, error: Exception) -> BaseException:
    """The error to raise for a rule that raised; failures of the cluster are returned unchanged.

    Messages of Spark's run-time errors and of Python functions quote values of the data, so only the error class is used.
    """
    cause = _cause(error)
    reason = type(cause).__name__
    if isinstance(cause, SpecError):
        return SpecError(f"expectation {rule.name} ({rule.type}): {cause.problem}", cause.advice)
    if isinstance(cause, PySparkException):
        if cause.getCondition() is None and not isinstance(cause, AnalysisException | PythonException):
            return cause
        reason = cause.getCondition() or reason
        if isinstance(cause, AnalysisException):
            reason = str(cause).splitlines()[0][:300]
    elif type(cause).__module__.startswith("py4j"):
        return cause
    elif type(cause).__module__.startswith("great_expectations"):
        reason = str(cause).splitlines()[0][:300]
    return SpecError(
        f"expectation {rule.name} ({rule.type}) raised on this batch: {reason.rstrip('.')}.",
        Either(
            Edit("correct the suite", "suite"),
            Edit("the transform that derives the column; the batch was not judged", "transform"),
        ),
    )
