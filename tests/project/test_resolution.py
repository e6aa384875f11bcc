"""A declaration is resolved before anything runs; a meaningless graph is an error of the pipeline, a file of its flow."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.with_fields import with_fields
from tidegate.errors import SetupError, SpecError, TidegateError
from tidegate.project.resolution import ResolvedPipeline, load_all, resolve
from tidegate.spec import (
    ChangeFeed,
    ChangeRecords,
    FileSource,
    Flow,
    FunctionSink,
    Gate,
    Intervals,
    KafkaSink,
    KafkaSource,
    Pipeline,
    SnapshotFeed,
    State,
    Table,
    Watermark,
)

FILES = FileSource(path="trips", format="csv", schema="id INT")
BRONZE = Flow(name="bronze", source=FILES, target=Table("bronze.trips"))
SILVER = Flow(
    name="silver",
    source=ChangeFeed("bronze.trips"),
    transform="trips:clean",
    target=Table("silver.trips", keys=("id",), sequence_by=("at",)),
    gate=Gate("trips/silver"),
)
GOLD = Flow(
    name="gold",
    source=ChangeFeed("silver.trips"),
    transform="trips:daily",
    target=Table("gold.trips", keys=("day",)),
)
TRIPS = Pipeline(name="trips", flows=(BRONZE, SILVER, GOLD))
REPORTS = Pipeline(name="reports", flows=(replace(GOLD, target=Table("gold.reports", keys=("day",))),))
SUITE = '{"name": "trips/silver", "expectations": [{"type": "expect_column_to_exist"}]}'
CODE = "raise RuntimeError('never imported')\n\ndef clean(rows): ...\n\nif True:\n    from elsewhere import daily\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the suite and the transforms of `TRIPS`."""
    import spark_jobs

    for path, content in (("expectations/trips/silver.json", SUITE), ("spark_jobs/trips.py", CODE)):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text(content)
    monkeypatch.setattr(spark_jobs, "__path__", [str(tmp_path / "spark_jobs")])
    return tmp_path


def resolved(
    project: Path, pipeline: Pipeline = TRIPS, *others: Pipeline | tuple[str, TidegateError]
) -> ResolvedPipeline:
    declared: dict[str, Pipeline | TidegateError] = dict(
        (each.name, each) if isinstance(each, Pipeline) else each for each in others
    )
    return resolve(pipeline, project, declared)


def errors(pipeline: ResolvedPipeline) -> dict[str, str]:
    return {each.flow.name: each.error.message for each in pipeline.flows if each.error is not None}


def test_each_flow_has_its_writer_landing_source_keys_readers_suite_and_code(project: Path) -> None:
    bronze, silver, gold = resolved(project, TRIPS, REPORTS).flows

    assert (bronze.writer, bronze.landing, bronze.source_keys, bronze.readers) == (None, None, (), ("trips/silver",))
    assert (silver.writer, silver.landing, silver.source_keys) == (BRONZE, FILES, ())
    assert silver.readers == ("trips/gold", "reports/gold")
    assert (gold.writer, gold.landing, gold.source_keys, gold.readers) == (SILVER, None, ("id",), ())
    assert silver.suite == project / "expectations/trips/silver.json"
    assert (bronze.code, silver.code) == (None, project / "spark_jobs/trips.py")
    assert (bronze.error, silver.error, gold.error) == (None, None, None)
    assert "spark_jobs.trips" not in sys.modules


def test_a_source_may_be_written_by_another_pipeline(project: Path) -> None:
    assert resolved(project, REPORTS, TRIPS).flow("gold").writer == SILVER


def test_a_source_that_no_flow_writes_is_an_error_of_the_pipeline(project: Path) -> None:
    with pytest.raises(
        SpecError, match=r"pipelines/reports\.py, flow 'gold': no declared flow writes .*'silver\.trips'"
    ):
        resolved(project, REPORTS)


def test_a_source_that_a_pipeline_may_write_that_does_not_load_is_an_error_of_the_flow(project: Path) -> None:
    with_file = resolved(project, REPORTS, ("trips", SpecError("line 3")))
    assert errors(with_file)["gold"].endswith("or correct pipelines/trips.py")


def test_two_writers_of_a_table_are_an_error_of_both_pipelines(project: Path) -> None:
    other = Pipeline(name="other", flows=(replace(BRONZE, name="copy"),))
    with pytest.raises(
        SpecError, match=r"flow 'bronze': flow 'copy' in pipelines/other\.py writes 'bronze\.trips' too"
    ):
        resolved(project, TRIPS, other)
    with pytest.raises(
        SpecError, match=r"flow 'copy': flow 'bronze' in pipelines/trips\.py writes 'bronze\.trips' too"
    ):
        resolved(project, other, TRIPS)


def test_a_source_without_keys_that_is_not_bronze_is_an_error_of_the_pipeline(project: Path) -> None:
    clicks = Flow(name="clicks", source=KafkaSource(topic="clicks", schema="id INT"), target=Table("bronze.clicks"))
    log = Flow(name="log", source=ChangeFeed("bronze.clicks"), transform="trips:clean", target=Table("silver.log"))
    behind = Flow(name="behind", source=ChangeFeed("silver.log"), transform="trips:clean", target=Table("silver.b"))
    with pytest.raises(SpecError, match=r"flow 'behind': its source 'silver\.log' is neither a bronze table nor keyed"):
        resolved(project, Pipeline(name="clicks", flows=(clicks, log, behind)))


def test_state_needs_a_source_with_a_watermark_and_a_watermark_a_bronze_table(project: Path) -> None:
    appended = replace(
        SILVER,
        target=Table("silver.trips", event_time="at"),
        gate=None,
        watermark=Watermark(delay="10 minutes"),
    )
    stateful = replace(GOLD, target=Table("gold.trips"), state=State())
    trips = replace(TRIPS, flows=(BRONZE, appended, stateful))

    assert errors(resolved(project, trips)) == {}
    keyed = errors(resolved(project, replace(TRIPS, flows=(BRONZE, SILVER, stateful))))
    assert "declares no watermark" in keyed["gold"]
    elsewhere = replace(REPORTS, flows=(stateful,))
    assert (
        "another pipeline writes"
        in errors(resolved(project, elsewhere, replace(TRIPS, flows=(BRONZE, appended))))["gold"]
    )
    second = replace(
        appended, name="second", source=ChangeFeed("silver.trips"), target=Table("silver.b", event_time="at")
    )
    assert "no bronze table" in errors(resolved(project, replace(TRIPS, flows=(BRONZE, appended, second))))["second"]


def test_a_table_without_keys_cannot_be_sent_and_that_is_an_error_of_the_flow(project: Path) -> None:
    sent = Flow(name="sent", source=ChangeFeed("bronze.trips"), target=KafkaSink("trips"))
    message = errors(resolved(project, replace(TRIPS, flows=(*TRIPS.flows, sent))))["sent"]
    assert "its source 'bronze.trips' has no keys, by which the changes are sent to kafka.trips" in message
    keyed = replace(sent, source=ChangeFeed("gold.trips"))
    assert errors(resolved(project, replace(TRIPS, flows=(*TRIPS.flows, keyed)))) == {}


@pytest.mark.parametrize(
    ("write", "message"),
    [
        ("trips_db:upsert", r"spark_jobs/trips_db\.py does not exist"),
        ("trips:upsert", r"spark_jobs/trips\.py has no function 'upsert'"),
    ],
)
def test_the_function_of_a_sink_that_does_not_exist_is_an_error_of_its_flow(
    project: Path, write: str, message: str
) -> None:
    sent = Flow(name="sent", source=ChangeFeed("gold.trips"), target=FunctionSink("postgres.trips", write=write))
    pipeline = resolved(project, replace(TRIPS, flows=(*TRIPS.flows, sent)))

    with pytest.raises(SpecError, match=rf"flow 'sent': function of the sink postgres\.trips '{write}': {message}"):
        pipeline.check_runnable([sent])
    known = replace(sent, target=FunctionSink("postgres.trips", write="trips:clean"))
    assert errors(resolved(project, replace(TRIPS, flows=(*TRIPS.flows, known)))) == {}


def test_two_flows_that_send_to_one_topic_are_an_error_of_the_pipeline(project: Path) -> None:
    sent = Flow(name="sent", source=ChangeFeed("gold.trips"), target=KafkaSink("trips"))
    other = Pipeline(name="other", flows=(replace(sent, name="again"),))
    with pytest.raises(SpecError, match=r"flow 'again' in pipelines/other\.py writes 'kafka\.trips' too"):
        resolved(project, replace(TRIPS, flows=(*TRIPS.flows, sent)), other)


def test_a_flow_that_replaces_scopes_by_rows_of_their_parts_is_an_error_of_the_flow(project: Path) -> None:
    legs = Table("silver.legs", keys=("id", "leg"), sequence_by=("at",))
    scoped = replace(legs, name="silver.copies", replace_by=("id",))
    by_leg = (replace(SILVER, target=legs), Flow(name="copies", source=ChangeFeed("silver.legs"), target=scoped))
    versions = (
        replace(SILVER, target=replace(legs, keys=("id", "at"))),
        Flow(name="copies", source=ChangeFeed("silver.legs"), target=scoped),
    )

    errors_of_legs = errors(resolved(project, Pipeline(name="trips", flows=(BRONZE, *by_leg))))

    assert list(errors_of_legs) == ["copies"]
    assert "its source 'silver.legs' has one row per leg: each row would replace the others" in errors_of_legs["copies"]
    assert errors(resolved(project, Pipeline(name="trips", flows=(BRONZE, *versions)))) == {}


def test_a_text_in_the_order_of_records_that_are_not_transformed_is_an_error_of_the_flow(project: Path) -> None:
    landing = replace(BRONZE, source=replace(FILES, schema="id INT, file STRING, at TIMESTAMP"))
    ordered = replace(SILVER, transform=None, target=with_fields(SILVER.target, sequence_by=("file", "at")))
    declared = replace(ordered, target=with_fields(ordered.target, text_order={"file": "numbers"}))

    of_flows = errors(resolved(project, Pipeline(name="trips", flows=(landing, ordered))))

    assert list(of_flows) == ["silver"]
    assert "table 'silver.trips': sequence_by has 'file', a STRING, and nothing says how" in of_flows["silver"]
    assert errors(resolved(project, Pipeline(name="trips", flows=(landing, declared)))) == {}


def test_a_history_of_a_table_that_keeps_only_the_newest_rows_is_an_error_of_the_flow(project: Path) -> None:
    kept = Table("silver.kept", keys=("id",), sequence_by=("at",), history="scd2")
    of_bronze = Flow(name="kept", source=ChangeFeed("bronze.trips"), transform="trips:clean", target=kept)
    of_silver = replace(of_bronze, source=ChangeFeed("silver.trips"))

    assert errors(resolved(project, Pipeline(name="trips", flows=(BRONZE, of_bronze)))) == {}
    refused = errors(resolved(project, Pipeline(name="trips", flows=(BRONZE, SILVER, of_silver))))
    assert "a full refresh would lose the versions; read the bronze table" in refused["kept"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "does not exist"),
        ("{", "is not JSON: .* in line 1"),
        ("[]", "is not a suite"),
        ('{"expectations": []}', "contains no expectation"),
    ],
)
def test_a_suite_that_cannot_be_read_is_an_error_of_its_flow(project: Path, content: str | None, message: str) -> None:
    suite = project / "expectations/trips/silver.json"
    suite.unlink() if content is None else suite.write_text(content)

    pipeline = resolved(project)

    assert list(errors(pipeline)) == ["silver"]
    where = r"pipelines/trips\.py, flow 'silver': suite 'trips/silver' \(trips/silver\.json\)"
    with pytest.raises(SpecError, match=f"^{where} {message}"):
        pipeline.check_runnable([SILVER, GOLD])
    pipeline.check_runnable([BRONZE, SILVER, GOLD])
    pipeline.check_runnable([GOLD])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"spark_jobs/trips\.py does not exist"),
        ("def clean(rows): ...\n\ndef daily(rows:\n", r"spark_jobs/trips\.py cannot be read: .*line 3"),
        ("def clean(rows):\n    def daily(rows): ...\n\ndaily\n", r"spark_jobs/trips\.py has no function 'daily'"),
    ],
)
def test_a_transform_that_does_not_exist_is_an_error_of_its_flow(
    project: Path, content: str | None, message: str
) -> None:
    code = project / "spark_jobs/trips.py"
    code.unlink() if content is None else code.write_text(content)

    with pytest.raises(SpecError, match=rf"^pipelines/trips\.py, flow 'gold': transform 'trips:daily': {message}"):
        resolved(project).check_runnable([GOLD])


def test_a_transform_may_come_from_an_import_of_all_names(project: Path) -> None:
    (project / "spark_jobs/trips.py").write_text("from elsewhere import *\n")
    assert errors(resolved(project)) == {}


def test_a_transform_in_sql_is_checked_with_the_fields_of_its_source(project: Path) -> None:
    flow = replace(SILVER, transform="trips.sql", gate=None)
    pipeline = Pipeline(name="trips", flows=(BRONZE, flow))
    path = project / "spark_jobs" / "trips.sql"
    path.write_text("SELECT id,\n id AS at, way FROM trips")
    (_, wrong) = resolve(pipeline, project, {}).flows
    assert wrong.error is not None
    assert wrong.error.message.startswith(
        "pipelines/trips.py, flow 'silver': transform 'trips.sql': spark_jobs/trips.sql line 2, column 12: it reads way, which is no "
        "declared field of bronze.trips"
    )
    path.write_text("SELECT id, id AS at FROM trips")
    (_, right) = resolve(pipeline, project, {}).flows
    assert (right.error, right.code) == (None, path)
    path.unlink()
    (_, missing) = resolve(pipeline, project, {}).flows
    assert missing.error is not None and "spark_jobs/trips.sql does not exist; create it" in missing.error.message


def test_what_a_join_in_sql_shows_is_as_if_it_were_declared(project: Path) -> None:
    weather = replace(
        SILVER,
        name="weather",
        transform=None,
        gate=None,
        target=Table("silver.weather", keys=("id",), sequence_by=("id",)),
    )
    trips = replace(weather, name="silver", target=Table("silver.trips", keys=("id",), sequence_by=("id",)))
    joined = Flow(
        name="joined",
        sources=(ChangeFeed("silver.trips"), ChangeFeed("silver.weather")),
        transform="joined.sql",
        target=Table("gold.joined", keys=("id",)),
    )
    pipeline, path = (
        Pipeline(name="trips", flows=(BRONZE, trips, weather, joined)),
        project / "spark_jobs" / "joined.sql",
    )
    path.write_text("SELECT t.id, w.wind FROM trips t LEFT JOIN weather w ON t.at = w.at")
    resolved = resolve(pipeline, project, {}).flow("joined")
    declared = replace(joined, sources=(ChangeFeed("silver.trips"), ChangeFeed("silver.weather", on={"at": "at"})))
    assert (resolved.error, resolved.flow) == (None, declared)
    assert resolved.flow.remembered() == declared.remembered()

    path.write_text("SELECT t.id, w.wind FROM trips t LEFT JOIN weather w ON at = id")
    error = resolve(pipeline, project, {}).flow("joined").error
    assert error is not None and "line 1, column 44: the SELECT does not show which rows" in error.message


def test_without_its_parser_sql_is_an_error_of_the_pipeline_that_says_what_to_install(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a process that has not imported it."""
    names = [
        name
        for name in sys.modules
        if name.partition(".")[0] == "sqlglot" or name.startswith("tidegate.project.statement")
    ]
    for name in names:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr("tidegate.project.statement_rules", raising=False)
    monkeypatch.setattr(sys, "path", [each for each in sys.path if "site-packages" not in each])
    pipeline = Pipeline(name="trips", flows=(BRONZE, replace(SILVER, transform="trips.sql", gate=None)))
    with pytest.raises(SetupError, match=r"sqlglot is not installed .*tidegate\[sql\]"):
        resolve(pipeline, project, {})


def test_code_whose_state_grows_is_an_error_of_the_stateful_flow_alone(project: Path) -> None:
    code = "def clean(rows): ...\n\ndef daily(rows):\n    return rows.dropDuplicates()\n"
    (project / "spark_jobs/trips.py").write_text(code)
    appended = replace(
        SILVER, target=Table("silver.trips", event_time="at"), gate=None, watermark=Watermark(delay="1 hour")
    )
    stateful = replace(GOLD, target=Table("gold.trips"), state=State())

    (name, message), *others = errors(resolved(project, replace(TRIPS, flows=(BRONZE, appended, stateful)))).items()

    assert (name, others) == ("gold", [])
    assert "remembers every row for ever" in message


def test_each_of_several_sources_has_a_writer_and_readers(project: Path) -> None:
    (project / "spark_jobs" / "trips.py").write_text("def clean(rows): ...\n\ndef daily(trips, reports): ...\n")
    sources = (ChangeFeed("silver.trips"), ChangeFeed("gold.reports", on={"day": "day"}))
    joined = replace(GOLD, name="joined", sources=sources, target=Table("gold.joined", keys=("day",)))
    trips = replace(TRIPS, flows=(joined, *TRIPS.flows))

    pipeline = resolved(project, trips, REPORTS)

    assert [flow.name for flow in pipeline.pipeline.flows] == ["bronze", "silver", "joined", "gold"]
    assert pipeline.flow("joined").error is None
    assert pipeline.flow("joined").writer == SILVER
    assert pipeline.pipeline.upstream_of(joined) == (SILVER,)
    assert pipeline.pipeline.reads_external(joined), "another pipeline writes gold.reports"
    assert resolved(project, REPORTS, trips).flows[0].readers == ("trips/joined",)
    raw = replace(BRONZE, name="raw", target=Table("bronze.raw"))
    unparsed = replace(joined, sources=(sources[0], ChangeFeed("bronze.raw", on={"id": "id"})))
    error = resolved(project, replace(TRIPS, flows=(raw, unparsed, *TRIPS.flows))).flow("joined").error
    assert "its source 'bronze.raw' has no keys: its records are not parsed yet" in str(error)
    with pytest.raises(SpecError, match=r"no declared flow writes its source table 'gold\.reports'"):
        resolved(project, trips)


def test_a_flow_runs_if_no_flow_above_it_fails(project: Path) -> None:
    (project / "spark_jobs" / "trips.py").write_text("def clean(rows): ...\n\ndef joined(trips, other): ...\n")
    other = replace(
        SILVER,
        name="other",
        transform="trips:missing",
        gate=None,
        target=with_fields(SILVER.target, name="silver.other"),
    )
    sources = (ChangeFeed("silver.trips"), ChangeFeed("silver.other", on={"id": "id"}))
    joined = replace(GOLD, sources=sources, transform="trips:joined")
    pipeline = resolved(project, replace(TRIPS, flows=(BRONZE, SILVER, other, joined)))

    pipeline.check_runnable((SILVER, joined))
    with pytest.raises(SpecError, match="has no function 'missing'"):
        pipeline.check_runnable((other, joined))


def test_a_flow_that_reads_snapshots_needs_files_that_say_when_one_is_complete(project: Path) -> None:
    followed = Flow(name="silver", source=SnapshotFeed("bronze.trips"), target=Table("silver.trips", keys=("id",)))
    days = "dt=%Y-%m-%d"
    changes = ChangeRecords(operation="op", writes=("I",), deletes=("D",))
    complete = replace(FILES, intervals=Intervals(days, files=3))

    def error(source: FileSource | KafkaSource) -> str:
        pipeline = Pipeline(name="trips", flows=(replace(BRONZE, source=source), followed))
        return errors(resolved(project, pipeline)).get("silver", "")

    assert error(complete) == ""
    kept = Table("silver.kept", keys=("id",), sequence_by=("at",), history="scd2")
    history = Flow(name="kept", source=ChangeFeed("silver.trips"), target=kept)
    own = Pipeline(name="trips", flows=(replace(BRONZE, source=complete), followed, history))
    assert "read the bronze table with SnapshotFeed" in errors(resolved(project, own))["kept"]
    for source in (
        FILES,
        replace(FILES, intervals=Intervals(days, quiet_hours=2)),
        KafkaSource(topic="trips", schema="id INT"),
    ):
        assert "nothing says when a snapshot in its source 'bronze.trips' is complete" in error(source)
    assert "are changes" in error(replace(complete, schema="id INT, op STRING", changes=changes))
    elsewhere = Pipeline(name="landing", flows=(replace(BRONZE, source=complete),))
    assert (
        "another pipeline" in errors(resolved(project, Pipeline(name="trips", flows=(followed,)), elsewhere))["silver"]
    )


def test_snapshots_beside_changes_are_complete_ones_of_the_same_columns(project: Path) -> None:
    days = Intervals("dt=%Y-%m-%d", files=3)
    exports = Flow(
        name="exports", source=replace(FILES, path="exports", intervals=days), target=Table("bronze.exports")
    )
    followed = Flow(
        name="silver",
        source=ChangeFeed("bronze.trips"),
        snapshots=SnapshotFeed("bronze.exports"),
        target=Table("silver.trips", keys=("id",), sequence_by=("at",)),
    )

    def error(*flows: Flow) -> str:
        return errors(resolved(project, Pipeline(name="trips", flows=flows))).get("silver", "")

    assert error(BRONZE, exports, followed) == ""
    assert "no declared flow writes 'bronze.exports', the table of its snapshots" in error(BRONZE, followed)
    plain = with_fields(exports, source=with_fields(exports.source, intervals=None))
    assert "nothing says when a snapshot in its source 'bronze.exports' is complete" in error(BRONZE, plain, followed)
    wide = with_fields(exports, source=with_fields(exports.source, schema="id BIGINT NOT NULL, at TIMESTAMP"))
    assert "column 'id' is int in its changes (bronze.trips), and bigint in its snapshots (bronze.exports)" in error(
        BRONZE, wide, followed
    )
    keyless = with_fields(exports, source=with_fields(exports.source, schema="at TIMESTAMP"))
    assert "its snapshots (bronze.exports) have no column 'id', which is a key" in error(BRONZE, keyless, followed)
    latest = replace(followed, name="latest", snapshots=None)
    copied = replace(
        followed, source=ChangeFeed("silver.trips"), target=Table("silver.copy", keys=("id",), sequence_by=("at",))
    )
    assert "its source 'silver.trips' is no bronze table" in error(BRONZE, exports, latest, copied)
    elsewhere = Pipeline(name="landing", flows=(exports,))
    own = Pipeline(name="trips", flows=(BRONZE, followed))
    assert "another pipeline" in errors(resolved(project, own, elsewhere))["silver"]


@pytest.mark.parametrize("in_pipeline", ["trips", "other"])
def test_a_landing_folder_with_other_intervals_elsewhere_is_an_error_of_both_flows_that_names_both(
    project: Path, in_pipeline: str
) -> None:
    daily = Intervals("dt=%Y-%m-%d", marker="dt=%Y-%m-%d/_SUCCESS")
    days = Flow(name="days", source=replace(FILES, intervals=daily), target=Table("bronze.days"))
    copies = Flow(name="copies", source=replace(FILES, intervals=daily), target=Table("bronze.copies"))

    def errors_of(second: Flow) -> dict[str, str]:
        """The errors of both flows, which are in one pipeline or in two."""
        if in_pipeline == "trips":
            return errors(resolved(project, Pipeline(name="trips", flows=(days, second))))
        one, two = Pipeline(name="trips", flows=(days,)), Pipeline(name="other", flows=(second,))
        return errors(resolved(project, one, two)) | errors(resolved(project, two, one))

    for rule in (
        Intervals("dt=%Y-%m-%d", files=3),
        Intervals("dt=%Y-%m-%d/%H", marker="dt=%Y-%m-%d/%H/_SUCCESS"),
    ):
        of_flows = errors_of(replace(copies, source=replace(FILES, intervals=rule)))
        assert list(of_flows) == ["days", "copies"]
        assert f"in flow 'copies' in pipelines/{in_pipeline}.py" in of_flows["days"]
        assert "in flow 'days' in pipelines/trips.py" in of_flows["copies"]
    for source in (
        replace(FILES, intervals=daily),
        FILES,
        replace(FILES, intervals=Intervals("dt=%Y-%m-%d", files=3), glob="other_*.csv"),
        replace(FILES, intervals=Intervals("dt=%Y-%m-%d", files=3), path="elsewhere"),
    ):
        assert errors_of(replace(copies, source=source)) == {}


def test_a_flow_is_looked_at_as_often_in_a_project_of_many_pipelines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str] = []

    def source_tables(flow: Flow) -> tuple[str, ...]:
        looks.append(flow.name)
        return tuple(feed.table for feed in flow.feeds)

    monkeypatch.setattr(Flow, "source_tables", property(source_tables))

    def looks_at(count: int) -> float:
        """How often one flow is looked at, on average, while all pipelines of a project are resolved."""
        pipelines = {f"p{number}": _numbered(number) for number in range(count)}
        monkeypatch.setattr("tidegate.project.registry.declarations", lambda get: pipelines)
        looks.clear()
        resolved = load_all(tmp_path)
        assert all(isinstance(each, ResolvedPipeline) for each in resolved.values())
        return len(looks) / count

    assert looks_at(5) == looks_at(50)


def _numbered(number: int) -> Pipeline:
    bronze = Flow(name="bronze", source=replace(FILES, path=f"trips{number}"), target=Table(f"bronze.trips{number}"))
    silver = Flow(
        name="silver",
        source=ChangeFeed(f"bronze.trips{number}"),
        target=Table(f"silver.trips{number}", keys=("id",), sequence_by=("id",)),
    )
    return Pipeline(name=f"p{number}", flows=(bronze, silver))
