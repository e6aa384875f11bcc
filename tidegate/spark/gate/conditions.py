"""Great Expectations from the inside: the one module that uses what GX does not promise to keep.

GX is pinned exactly, and a contract test compares every flag made here with the rows that GX counts, so an upgrade that
moves something shows there. No GX context is made (it is a singleton of the process): a metric graph over an execution
engine of our own is all that judging needs, and it leaves nothing behind.
"""

from __future__ import annotations

import functools
import re
import textwrap
from string import Template
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException, PySparkException, PythonException
from pyspark.sql import functions as F

from tidegate.errors import SpecError
from tidegate.spark.gate.rules import COUNTS_ONLY, STATISTICAL, TOLD

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from great_expectations.core import ExpectationValidationResult
    from great_expectations.execution_engine.sparkdf_execution_engine import SparkDFExecutionEngine
    from great_expectations.validator.metric_configuration import MetricConfiguration
    from pyspark.sql import Column, DataFrame

    from tidegate.spark.gate.suite import Rule

_BATCH = "batch"
_PHRASE_AT_MOST = 400
"""Characters of an expectation's sentence: a long set of values is cut."""
_GX_VIEW = "tmp_view"
"""The temporary view in which GX lays a batch for a query, and which it leaves behind."""


def build_expectation(kind: str, kwargs: dict[str, Any], severity: str, meta: dict[str, Any] | None) -> Any:
    """GX's object for one expectation of a suite; GX raises pydantic's ``ValidationError`` for wrong kwargs."""
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration
    from great_expectations.expectations.metadata_types import FailureSeverity

    import tidegate.spark.gate.own  # noqa: F401 - registers ours

    configuration = ExpectationConfiguration(type=kind, kwargs=kwargs, severity=FailureSeverity(severity), meta=meta)
    return configuration.to_domain_obj()


def phrase(expectation: Any) -> str:
    """What an expectation asks for, in the words of GX's Data Docs; it quotes the suite and nothing of the data.

    Tables and graphs that GX draws for a few expectations are left out: their first sentence says what they are about.
    Empty for the one expectation that GX has no words for (a pair in a set).
    """
    from great_expectations.expectations.registry import get_renderer_impl
    from great_expectations.render.renderer.inline_renderer import InlineRenderer

    configuration = expectation.configuration
    contents: list[Any] = list(InlineRenderer(render_object=configuration).get_rendered_content())
    (atomic,) = (content for content in contents if content.name.startswith("atomic.prescriptive"))
    template = atomic.value.template
    told = {name: param["value"] for name, param in (atomic.value.params or {}).items()}
    if template is None:
        renderer: Any = get_renderer_impl(configuration.type, "renderer.prescriptive")
        first = renderer[1](configuration=configuration)[0]
        first = first if isinstance(first, dict) else first.to_json_dict()
        template, told = first["string_template"]["template"], first["string_template"]["params"]
    if template.startswith("$expectation_type"):
        return ""
    listed = re.sub(r"(\$\w+_\d+) (?=\$\w+_\d)", r"\1, ", template)
    whole = " ".join(re.sub(r"</?pre>", "", Template(listed).safe_substitute(told)).split())
    return textwrap.shorten(whole, _PHRASE_AT_MOST, placeholder=" …").replace(" % ", "\N{NO-BREAK SPACE}% ")


def build_engine(rows: DataFrame) -> SparkDFExecutionEngine:
    """GX's view of a batch.

    It gets the session of the frame: in foreachBatch that is a clone, and a query would look for its view elsewhere.
    It never persists: GX does not unpersist.
    """
    engine = _engine_class()(persist=False, spark=rows.sparkSession)
    engine.load_batch_data(_BATCH, rows)
    return engine


@functools.cache
def _engine_class() -> type[SparkDFExecutionEngine]:
    """GX's engine, but for when it asks Spark for aggregates: made on first use, because importing GX takes seconds."""
    from great_expectations.core.id_dict import IDDict
    from great_expectations.execution_engine.sparkdf_execution_engine import SparkDFExecutionEngine
    from great_expectations.util import convert_to_json_serializable

    class OnePassEngine(SparkDFExecutionEngine):
        """Puts aggregates off until nothing else can be worked out, so that they share one query.

        GX resolves its graph level by level, with a query for the aggregates of each level and each domain.
        """

        is_bare = False

        def _process_direct_and_bundled_metric_computation_configurations(
            self, metric_fn_direct_configurations: list[Any], metric_fn_bundle_configurations: list[Any]
        ) -> dict[Any, Any]:
            due = [] if metric_fn_direct_configurations else metric_fn_bundle_configurations
            resolved: dict[Any, Any] = super()._process_direct_and_bundled_metric_computation_configurations(
                metric_fn_direct_configurations=metric_fn_direct_configurations, metric_fn_bundle_configurations=due
            )
            return resolved

        def resolve_metric_bundle(self, metric_fn_bundle: Iterable[Any]) -> dict[Any, Any]:
            """All aggregates in one query, with a branch for each domain; GX has a query for each.

            Of a batch without rows (`flag_columns`) every count is 0, and no query is needed.
            """
            bundle = list(metric_fn_bundle)
            if self.is_bare:
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
            found: dict[str, Any] = {}
            for row in whole.collect():
                found |= {name: value for name, value in row.asDict().items() if value is not None}
            return {
                each.metric_configuration.id: convert_to_json_serializable(data=found.get(f"_{number}_{place}"))
                for number, members in enumerate(domains.values())
                for place, each in enumerate(members)
            }

    return OnePassEngine


def flag_columns(rules: Sequence[Rule], rows: DataFrame) -> list[Column]:
    """For each row rule, whether a row breaks it: never null, and true for exactly the rows that GX counts.

    GX's condition holds only within its domain (``row_condition``, ``ignore_row_if``, null values): outside of it the
    condition may be null, true, or raise, so the domain guards it.

    Raises:
        SpecError: GX cannot make a condition, for example because the batch lacks the column.
    """
    # GX counts the rows before it makes a condition that does not need the count: of an empty batch that costs nothing.
    bare: Any = build_engine(rows.limit(0))
    bare.is_bare = True
    plain = [rule for rule in rules if rule.type not in STATISTICAL]
    flags: dict[str, Column] = {}
    try:
        flags.update(_flags(plain, bare))
    except Exception:
        for rule in plain:
            flags.update(_blaming(rule, bare))
    measured = build_engine(rows)
    for rule in rules:
        if rule.type in STATISTICAL:
            flags.update(_blaming(rule, measured))
    return [flags[rule.name] for rule in rules]


def validate(rules: Sequence[Rule], engine: SparkDFExecutionEngine) -> list[ExpectationValidationResult]:
    """What GX says of each rule, with counts and without any value of the data.

    All metrics are resolved in one graph, so that GX bundles those of one domain into one Spark job. Whatever raises
    comes through as it is: `explain` says what it means.
    """
    from great_expectations.validator.validation_graph import ValidationGraph

    graph = ValidationGraph(engine)
    needed = [_dependencies(rule, engine) for rule in rules]
    try:
        for dependencies in needed:
            for metric in dependencies.values():
                graph.build_metric_dependency_graph(metric, runtime_configuration=_quiet())
        metrics = _resolve(graph)
    finally:
        engine.spark.catalog.dropTempView(_GX_VIEW)
    return [
        _result(rule, {name: metrics[metric.id] for name, metric in dependencies.items()}, engine)
        for rule, dependencies in zip(rules, needed, strict=True)
    ]


def explain(rules: Sequence[Rule], rows: DataFrame, error: Exception) -> BaseException:
    """The error to raise when `validate` raised: who is to blame is found by trying one thing after the other.

    Args:
        rules: What was validated.
        rows: The batch without flags; a flag that raises makes every reading of the flagged rows raise.
        error: What was raised.

    Returns:
        The rows' own error if they cannot be read at all, a `SpecError` that names the expectation that raises, or else
        the error that was raised (a lost executor, a full disk), without GX's wrapping.
    """
    try:
        rows.write.format("noop").mode("overwrite").save()
    except Exception as unreadable:
        return unreadable
    engine = build_engine(rows)
    for rule in rules:
        try:
            validate([rule], engine)
        except Exception as alone:
            return _spec_error(rule, alone)
    return _cause(error)


def _blaming(rule: Rule, engine: SparkDFExecutionEngine) -> dict[str, Column]:
    try:
        return _flags([rule], engine)
    except Exception as error:
        # From None: the cause may quote values of the data, and whoever logs this would log them.
        raise _spec_error(rule, error) from None


def _flags(rules: Sequence[Rule], engine: SparkDFExecutionEngine) -> dict[str, Column]:
    from great_expectations.validator.metric_configuration import MetricConfiguration
    from great_expectations.validator.validation_graph import ValidationGraph

    graph = ValidationGraph(engine)
    wanted: dict[str, MetricConfiguration] = {}
    for rule in rules:
        metric = rule.expectation.map_metric
        counted = _dependencies(rule, engine)[f"{metric}.unexpected_count"]
        condition = MetricConfiguration(
            f"{metric}.condition", counted.metric_domain_kwargs, counted.metric_value_kwargs
        )
        graph.build_metric_dependency_graph(condition, runtime_configuration=_quiet())
        wanted[rule.name] = condition
    metrics = _resolve(graph)
    return {name: _flag(metrics[condition.id], engine) for name, condition in wanted.items()}


def _flag(metric: tuple[Column, dict[str, Any], dict[str, Any]], engine: SparkDFExecutionEngine) -> Column:
    condition, compute, accessor = metric
    within = _domain({**compute, **accessor}, engine)
    return F.coalesce(condition if within is None else F.when(within, condition), F.lit(False))


def _result(rule: Rule, metrics: dict[str, Any], engine: SparkDFExecutionEngine) -> ExpectationValidationResult:
    """GX's own judgement of metrics that hold counts only, so its result cannot hold anything else.

    The observed value of a batch rule may be a value of the data (a maximum, a list): such a rule only says yes or no.
    Counts, ages and the aggregates that drift is measured by are no values of rows.
    """
    from great_expectations.core.result_format import ResultFormat
    from great_expectations.expectations.expectation_configuration import parse_result_format

    counts = rule.of_rows or rule.type in COUNTS_ONLY | TOLD
    shape = parse_result_format(str((ResultFormat.BASIC if counts else ResultFormat.BOOLEAN_ONLY).value))
    raw = rule.expectation._validate(
        metrics=metrics, runtime_configuration={"result_format": shape}, execution_engine=engine
    )
    result: ExpectationValidationResult = rule.expectation._build_evr(raw_response=raw)
    if not counts:
        result.result = {}
    return result


def _dependencies(rule: Rule, engine: SparkDFExecutionEngine) -> dict[str, MetricConfiguration]:
    dependencies = rule.expectation.get_validation_dependencies(execution_engine=engine, runtime_configuration=_quiet())
    return dict(dependencies.metric_configurations)


def _quiet() -> dict[str, Any]:
    # A new one each time: GX writes into it. BOOLEAN_ONLY needs no samples of rows; exceptions must reach us.
    return {"result_format": {"result_format": "BOOLEAN_ONLY"}, "catch_exceptions": False}


def _resolve(graph: Any) -> Any:
    metrics, _ = graph.resolve(runtime_configuration=_quiet(), show_progress_bars=False)
    return metrics


def _domain(kwargs: dict[str, Any], engine: SparkDFExecutionEngine) -> Column | None:
    """The rows that a rule is about, as GX's ``get_domain_records`` filters them; None when it is all of them."""
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
    """What GX wrapped: it raises its own errors from Spark's."""
    while not isinstance(error, PySparkException):
        inner = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        if inner is None:
            break
        error = inner
    return error


def _spec_error(rule: Rule, error: Exception) -> BaseException:
    """The error to raise for a rule that raised; the cluster's own failures stay what they are.

    Messages of Spark's run-time errors and of Python functions quote values of the data, so only their kind is told.
    """
    cause = _cause(error)
    told = type(cause).__name__
    if isinstance(cause, SpecError):
        return SpecError(f"expectation {rule.name} ({rule.type}): {cause.message}")
    if isinstance(cause, PySparkException):
        if cause.getCondition() is None and not isinstance(cause, AnalysisException | PythonException):
            return cause
        told = cause.getCondition() or told
        if isinstance(cause, AnalysisException):
            told = str(cause).splitlines()[0][:300]
    elif type(cause).__module__.startswith("py4j"):
        return cause
    elif type(cause).__module__.startswith("great_expectations"):
        told = str(cause).splitlines()[0][:300]
    return SpecError(
        f"expectation {rule.name} ({rule.type}) raised on this batch: {told.rstrip('.')}. "
        "Mend the suite, or the transform that makes the column; nothing was decided."
    )
