"""`tidegate.toml`: what it means, and that every wrong key or value is an error with its line and the nearest valid name."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.environment import Environment
from tidegate.environment.settings import FILE, SETTINGS
from tidegate.errors import SettingsError, SetupError

GIVEN = {
    "lake": "s3://acme/lake",
    "landing": "incoming",
    "source": "prod",
    "kafka.default.servers": "one:9092,two:9092",
    "kafka.<name>.servers": "three:9092",
    "kafka.<name>.security": "SASL_SSL",
    "kafka.<name>.mechanism": "SCRAM-SHA-512",
    "kafka.<name>.user": "tide",
    "kafka.<name>.password": "env:KAFKA_PASSWORD",
    "kafka.<name>.token_url": "https://tokens/oauth",
    "kafka.<name>.scope": "kafka",
    "kafka.<name>.ca": "env:KAFKA_CA",
    "kafka.<name>.certificate": "env:KAFKA_CERTIFICATE",
    "kafka.<name>.key": "env:KAFKA_KEY",
    "kafka.<name>.key_password": "env:KAFKA_KEY_PASSWORD",
    "kafka.<name>.options": "client.rack=use1-az1",
    "kafka.<name>.registry": "https://payments:8081",
    "kafka.<name>.registry_user": "ada",
    "kafka.<name>.registry_password": "env:REGISTRY_PASSWORD",
    "kafka.<name>.registry_ca": "env:REGISTRY_CA",
    "kafka.<name>.registry_certificate": "file:/client.crt",
    "kafka.<name>.registry_key": "file:/client.key",
    "kafka.<name>.registry_key_password": "env:REGISTRY_KEY_PASSWORD",
    "registry.url": "https://registry:8081",
    "registry.user": "ada",
    "registry.password": "env:REGISTRY_PASSWORD",
    "registry.ca": "env:REGISTRY_CA",
    "registry.certificate": "file:/client.crt",
    "registry.key": "file:/client.key",
    "registry.key_password": "env:REGISTRY_KEY_PASSWORD",
    "spark.master": "spark://box:7077",
    "spark.driver_memory": "4g",
    "spark.driver_cores": "2",
    "spark.executors": "4",
    "spark.executor_memory": "3g",
    "spark.executor_cores": "2",
    "spark.dynamic": "true",
    "spark.executor_python": "/opt/executors/bin/python",
    "spark.executor_wait": "900",
    "spark.pod_template": "/etc/pods.yaml",
    "spark.history": "http://spark:18080",
    "job.python": ".venv-job/bin/python",
    "airflow.connection": "spark_night",
    "airflow.pool": "spark",
    "alerts": "airflow-connection:chat",
    "s3.endpoint": "https://storage:9000",
    "s3.region": "eu-west-1",
    "s3.credentials": "airflow-connection:bucket",
}
"""A value of each setting of an environment."""
KEYS = [key for key in GIVEN if "<" not in key and key != "source"]


def written(folder: Path, text: str, **variables: str) -> Environment:
    """The environment of a file with this text."""
    (folder / FILE).write_text(text, encoding="utf-8")
    return Environment.read({"TIDEGATE_PROJECT": str(folder), **variables})


def error_of(folder: Path, text: str, **variables: str) -> SettingsError:
    with pytest.raises(SettingsError) as raised:
        written(folder, text, **variables)
    assert raised.value.file == str(folder / FILE)
    assert raised.value.message.startswith(f"{folder / FILE}:{raised.value.line}: ")
    assert raised.value.advice is not None
    return raised.value


def file_of(**tables: dict[str, str]) -> str:
    """A file with these tables, in which `_` stands for the point of a table's name."""
    lines = ['project = "shop"', 'default = "dev"']
    for name, values in tables.items():
        lines += [f"[{name.replace('_', '.')}]", *(f'{key} = "{value}"' for key, value in values.items())]
    return "\n".join(lines)


def test_every_setting_of_an_environment_has_a_value_in_these_tests() -> None:
    assert set(GIVEN) == {setting.key for setting in SETTINGS} - {"", "project"}


@pytest.mark.parametrize("setting", [each for each in SETTINGS if each.key in GIVEN], ids=lambda each: each.variable)
def test_a_setting_means_the_same_in_the_file_and_in_its_variable_and_for_a_child(
    setting: object, tmp_path: Path
) -> None:
    assert setting in SETTINGS
    declared = next(each for each in SETTINGS if each == setting)
    own = declared.of("payments") if declared.named else declared
    text = GIVEN[declared.key]
    in_file = written(tmp_path, file_of(environments_dev={own.key: text}, environments_prod={"lake": "elsewhere"}))
    # A relative path of a variable begins at the working directory.
    absolute = str(tmp_path / text) if declared.key in ("landing", "job.python") else text
    without = file_of(environments_dev={}, environments_prod={"lake": "elsewhere"})
    by_variable = written(tmp_path, without, **{own.variable: absolute})
    plain = written(tmp_path, without)
    assert getattr(in_file, declared.field) == getattr(by_variable, declared.field) != getattr(plain, declared.field)
    for environment in (in_file, by_variable):
        assert Environment.read(environment.variables()) == environment
        assert environment.variables()[own.variable] == absolute


@pytest.mark.slow
@given(
    st.dictionaries(st.sampled_from(KEYS), st.sets(st.sampled_from(["variable", "environment", "common"]), min_size=1))
)
def test_a_variable_overrides_the_environment_which_overrides_what_is_common(places: dict[str, set[str]]) -> None:
    own, common, variables = dict[str, str](), dict[str, str](), dict[str, str]()
    declared = {setting.key: setting for setting in SETTINGS}
    texts = {
        place: {key: _other(GIVEN[key], number) for key in places}
        for number, place in enumerate(("variable", "environment", "common"))
    }
    for key, where in places.items():
        if "variable" in where:
            # Where a task runs depends on nothing that a person sees, so this one is absolute.
            texts["variable"]["job.python"] = "/opt/python"
            variables[declared[key].variable] = texts["variable"][key]
        if "environment" in where:
            own[key] = texts["environment"][key]
        if "common" in where:
            common[key] = texts["common"][key]
    with tempfile.TemporaryDirectory() as folder:
        environment = written(Path(folder), file_of(common=common, environments_dev=own), **variables)
        child = environment.variables()
        for key, where in places.items():
            first = next(place for place in ("variable", "environment", "common") if place in where)
            base = Path.cwd() if first == "variable" else Path(folder)
            text = texts[first][key]
            assert child[declared[key].variable] == (str(base / text) if key in ("landing", "job.python") else text)
        # Without the setting it is that of this process.
        for key in set(KEYS) - set(places) - {"job.python"}:
            assert child.get(declared[key].variable, "") == declared[key].default.replace("<project>", folder)


def _other(text: str, number: int) -> str:
    """Another value of the same kind."""
    if text.endswith("g"):
        return f"{number + 1}g"
    if text.isdecimal():
        return str(number + 1)
    if text == "true":
        return ("true", "false")[number % 2]
    separator = "" if text.startswith(("env:", "airflow")) or "://" in text or "/" in text else "-"
    return (
        f"{text}{separator}{number}"
        if ":80" not in text and ":9" not in text and ":7" not in text
        else f"{text}{number}"
    )


@st.composite
def typing_errors(draw: st.DrawFn) -> tuple[str, str]:
    """A key, and the same with one character too many, too few, or another one."""
    key = draw(st.sampled_from(KEYS))
    at = draw(st.integers(0, len(key) - 1).filter(lambda each: key[each] != "."))
    letter = draw(st.sampled_from("abcdefghijklmnopqrstuvwxyz_"))
    wrong = key[:at] + draw(st.sampled_from(["", letter, letter + key[at]])) + key[at + 1 :]
    return key, wrong


@pytest.mark.slow
@given(typing_errors(), st.integers(0, 5), st.sampled_from(["common", "environments.dev", "environments.prod"]))
def test_a_typing_error_is_an_error_with_its_line_and_the_key_that_was_meant(
    typed: tuple[str, str], blank: int, table: str
) -> None:
    key, wrong = typed
    if wrong in GIVEN or any(not part for part in wrong.split(".")):
        return
    lines = [
        'project = "shop"',
        'default = "prod"',
        "[environments.dev]",
        'lake = "a"',
        "[environments.prod]",
        'lake = "b"',
        "[common]",
    ]
    header = lines.index(f"[{table}]")
    lines[header + 1 : header + 1] = [*["# a comment"] * blank, f'{wrong} = "{GIVEN[key]}"']
    with tempfile.TemporaryDirectory() as folder:
        error = error_of(Path(folder), "\n".join(lines))
    assert error.line == header + blank + 2
    assert key in error.message or (table != "common" and key == "lake")


@pytest.mark.slow
@given(st.text(max_size=200))
def test_any_text_is_a_file_or_an_error_of_one_line(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / FILE).write_text(text, encoding="utf-8", newline="")
        with pytest.raises(SettingsError) as raised:
            Environment.read({"TIDEGATE_PROJECT": folder})
    assert 1 <= raised.value.line <= max(1, text.count("\n") + text.count("\r") + 1)


TWO = 'project = "shop"\ndefault = "dev"\n[environments.dev]\n{dev}\n[environments.prod]\nlake = "prod"\n{prod}\n'


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("", 1, "write project = '"),
        ('project = "a b"', 1, "is no name"),
        ('project = "shop"\n[environment.dev]\nlake = "x"', 2, "write environments"),
        ('project = "shop"\nlake = "x"', 2, "move lake into [common]"),
        ('project = "shop"\nkafka.default.servers = "x"', 2, "move kafka into [common]"),
        ('project = "shop"\nproject = "shop"', 2, "it is not TOML: Cannot overwrite a value"),
        ('project = "shop"\nlake = ', 2, "it is not TOML"),
        ('project = "shop"\nenvironments = "dev"', 2, "environments is a text"),
        ('project = "shop"\nenvironments.dev = "x"', 2, "environments.dev is a text"),
        ('project = "shop"\n[environments."a b"]', 2, "no name of an environment"),
        ('project = 1', 1, "project is a number"),
        ('project = "shop"\ndefault = "prd"\n[environments.prod]', 2, "write prod"),
        ('project = "shop"\n[environments.a]\n[environments.b]\nlake = "b"', 1, "add default = 'a'"),
        ('project = "shop"\n[common]\nspark.driver_memory = 2', 3, "spark.driver_memory is a number"),
        ('project = "shop"\n[common]\nalerts = true', 3, "alerts is true or false"),
        ('project = "shop"\n[common]\nkafka.default.servers = [\n "a:1",\n "b:2",\n]', 3, "is a list"),
        ('project = "shop"\n[common]\nlake = ""', 3, "lake is empty"),
        ('project = "shop"\n[common]\nspark = {}', 3, "write spark.master or spark.driver_memory or"),
        ('project = "shop"\n[common]\nspark.driver_memory = "2 GB"', 3, "such as 2g"),
        ('project = "shop"\n[common]\nlake = "hdfs://x/y"', 3, "HDFS"),
        ('project = "shop"\n[common]\nspark.history = "spark:18080"', 3, "is not the URL of a server"),
        ('project = "shop"\n[common]\nkafka.defualt.servers = "a:1"', 3, "write kafka.default.servers"),
        (TWO.format(dev='source = "dev"', prod=""), 4, "environment 'dev' is its own source"),
        (TWO.format(dev='source = "prod"', prod='source = "dev"'), 4, "by way of prod"),
        (TWO.format(dev='source = "prd"', prod=""), 4, "write prod"),
        (TWO.format(dev='lake = "./prod/"', prod=""), 6, "have one lake"),
        (TWO.format(dev='lake = "prod/inside"', prod=""), 6, "in each other"),
        (TWO.format(dev='landing = "in"', prod='lake = "x"'), 7, "Cannot overwrite"),
        ('project = "shop"\n[environments.a]\n[environments.b]\n', 3, "have one lake"),
        ('project = "shop"\ndefault="a"\n[environments.a]\n[environments.b]\n', 4, "have one lake"),
        ('project = "shop"\ndefault="a"\n[common]\nlake = "s3://acme/l"\n[environments.a]\n[environments.b]\n', 4, "have one lake"),
        ('project = "shop"\n[environments.a]\nlake = "x"\nlanding = "x"', 3, "are both"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_an_error_with_the_line_and_what_to_write(
    text: str, line: int, says: str, tmp_path: Path
) -> None:
    error = error_of(tmp_path, text)
    assert (error.line, says in error.message) == (line, True), error.message


@pytest.mark.parametrize(
    "line",
    [
        'registry.password = "{}"',
        'registry.password = "vault:{}"',
        'registry.url = "https://ada:{}@registry"',
        'kafka.payments.registry = "https://ada:{}@registry"',
        'kafka.payments.registry_password = "{}"',
        'lake = "s3a://key:{}@bucket/lake"',
        'spark.history = "http://ada:{}@spark:18080"',
        's3.endpoint = "http://key:{}@storage:9000"',
        's3.credentials = "{}"',
        'alerts = "{}"',
        'alerts = "file:{}"',
        'kafka.default.servers = "//ada:{}@broker:9092"',
        'registry.passwort = "{}"',
        'registry = "{}"',
        'job.python = ["{}"]',
    ],
)
def test_a_value_in_the_place_of_a_reference_is_refused_and_never_quoted(line: str, tmp_path: Path) -> None:
    error = error_of(tmp_path, f'project = "shop"\n[environments.dev]\n{line.format("canary-word")}\n')
    assert error.line == 3
    assert "canary" not in f"{error!r} {error} {error.__context__ if not error.__suppress_context__ else ''}"


def test_the_environment_is_the_selected_one_else_the_default_else_the_only_one(tmp_path: Path) -> None:
    text = file_of(
        environments_dev={"spark.master": "local[1]"}, environments_prod={"lake": "prod", "spark.master": "yarn"}
    )
    read = {name: written(tmp_path, text, **({"TIDEGATE_ENV": name} if name else {})) for name in ("", "dev", "prod")}
    assert [(each.name, each.master, each.project_name) for each in read.values()] == [
        ("dev", "local[1]", "shop"), ("dev", "local[1]", "shop"), ("prod", "yarn", "shop"),
    ]  # fmt: skip
    assert written(tmp_path, 'project = "shop"\n[environments.it]\n').name == "it"
    assert written(tmp_path, 'project = "shop"\n').name == ""
    error = error_of(tmp_path, text, TIDEGATE_ENV="prd")
    assert "write prod; there are dev, prod" in error.message


def test_a_source_of_a_variable_is_checked_as_one_of_the_file(tmp_path: Path) -> None:
    text = TWO.format(dev="", prod='source = "dev"')
    error = error_of(tmp_path, text, TIDEGATE_SOURCE="prod")
    assert "its own source, by way of" in error.message and "set TIDEGATE_SOURCE to another one" in error.message
    assert "write prod" in error_of(tmp_path, text, TIDEGATE_SOURCE="prdo").message
    assert written(tmp_path, text, TIDEGATE_ENV="prod", TIDEGATE_SOURCE="dev").source == "dev"


@pytest.mark.parametrize("name", ["TIDEGATE_ENV", "TIDEGATE_SOURCE"])
def test_without_a_file_no_environment_can_be_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=f"{name}='prod' names an environment, and {tmp_path} has no tidegate.toml"):
        Environment.read({"TIDEGATE_PROJECT": str(tmp_path), name: "prod"})


def test_a_file_is_looked_for_from_the_working_directory_upwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "project" / "inside" / "deeper").mkdir(parents=True)
    written(tmp_path / "project", 'project = "shop"\n[common]\nlake = "l"\n')
    (tmp_path / "project" / "inside" / FILE).mkdir()
    for folder in ("project/inside/deeper", "project"):
        monkeypatch.chdir(tmp_path / folder)
        read = Environment.read({})
        assert (read.project, read.lake) == (tmp_path / "project", tmp_path / "project" / "l")
    monkeypatch.chdir(tmp_path)
    assert Environment.read({}).project_name == ""
    # Somebody else's variable goes first, and a child gets no file.
    monkeypatch.chdir(tmp_path / "project")
    assert Environment.read({"TIDEGATE_PROJECT": str(tmp_path)}).project_name == ""
    assert Environment.read({"TIDEGATE_COMPLETE": "yes"}).project_name == ""


def test_a_working_directory_that_is_gone_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    try:
        assert Environment.read({}).name == ""
    finally:
        os.chdir(tmp_path)


def test_a_file_that_changes_is_read_again(tmp_path: Path) -> None:
    for memory in ("1g", "2g", "3g"):
        assert (
            written(tmp_path, f'project = "shop"\n[common]\nspark.driver_memory = "{memory}"\n').driver_memory == memory
        )


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()
    with pytest.raises(SettingsError, match="cannot be read: Is a directory"):
        Environment.read({"TIDEGATE_PROJECT": str(tmp_path)})
    (tmp_path / FILE).rmdir()
    (tmp_path / FILE).write_bytes(b'project = "shop"\n# \xff\n')
    with pytest.raises(SettingsError, match="not in UTF-8") as raised:
        Environment.read({"TIDEGATE_PROJECT": str(tmp_path)})
    assert raised.value.line == 2
    (tmp_path / FILE).write_text("a = " + "[" * 5000)
    with pytest.raises(SettingsError):
        Environment.read({"TIDEGATE_PROJECT": str(tmp_path)})


def test_the_servers_of_every_cluster_are_known_by_name(tmp_path: Path) -> None:
    own = {"kafka.default.servers": "a:1", "kafka.payments.servers": "b:2", "kafka.web_logs.servers": "c:3"}
    read = written(tmp_path, file_of(environments_dev=own), TIDEGATE_KAFKA__WEB_LOGS="d:4", TIDEGATE_KAFKA__MORE="e:5")
    assert read.kafka == "a:1"
    names = ("default", "payments", "web_logs", "more")
    assert [read.cluster(name).servers for name in names] == ["a:1", "b:2", "d:4", "e:5"]
    with pytest.raises(SetupError, match="there is no cluster 'payment' of Kafka") as raised:
        read.cluster("payment")
    assert "TIDEGATE_KAFKA__PAYMENT" in str(raised.value.advice)
    assert Environment.read(read.variables()) == read
