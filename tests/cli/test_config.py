"""`tidegate config`: what holds and where it comes from; `--env`; and a file that is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.project import Project, orders
from tidegate.environment.settings import FILE, SETTINGS

pytestmark = pytest.mark.slow

SHOP = """\
project = "shop"
default = "dev"

[common]
spark.driver_memory = "3g"
job.python = ".venv-job/bin/python"

[environments.dev]
source = "prod"

[environments.prod]
lake = "s3://acme/lake"
spark.master = "yarn"
kafka.payments.servers = "b:2"
registry.url = "https://registry:8081"
registry.user = "ada"
registry.password = "env:REGISTRY_WORD"
s3.credentials = "airflow-connection:bucket"
"""


@pytest.fixture
def shop(project: Project) -> Project:
    (project.folder / FILE).write_text(SHOP)
    return project


def settings(project: Project, *arguments: str, **variables: str) -> dict[str, dict[str, Any]]:
    """By key, or by variable of a setting without one. Lake and landing zone are the project's, not variables."""
    unset = dict.fromkeys(("TIDEGATE_LAKE", "TIDEGATE_LANDING", "TIDEGATE_KAFKA"), "")
    result = project.run("config", "--json", *arguments, **{**unset, **variables})
    assert result.code == 0, result.err
    return {each["key"] or each["variable"]: each for each in result.json["settings"]}


def test_each_value_is_shown_with_its_line_its_variable_or_as_the_default(shop: Project) -> None:
    file = shop.folder / FILE
    read = settings(shop, TIDEGATE_SPARK_HISTORY="http://spark:18080")
    places = {key: (each["value"], each["from"], each["at"]) for key, each in read.items()}
    assert places["TIDEGATE_PROJECT"] == (str(shop.folder), "variable", "TIDEGATE_PROJECT")
    assert places["TIDEGATE_ENV"] == ("dev", "file", f"{file}:2")
    assert places["project"] == ("shop", "file", f"{file}:1")
    assert places["spark.driver_memory"] == ("3g", "file", f"{file}:5")
    assert places["job.python"] == (str(shop.folder / ".venv-job/bin/python"), "file", f"{file}:6")
    assert places["source"] == ("prod", "file", f"{file}:9")
    assert places["lake"] == (str(shop.folder / ".data/lake"), "default", None)
    assert places["spark.history"] == ("http://spark:18080", "variable", "TIDEGATE_SPARK_HISTORY")
    assert places["registry.url"] == (None, "unset", None)
    assert read["registry.password"]["reference"]
    assert {setting.key for setting in SETTINGS if setting.key and not setting.named} <= set(read)


def test_secrets_are_shown_as_their_references(shop: Project) -> None:
    password = {"REGISTRY_WORD": "canary", "TIDEGATE_REGISTRY": "https://ada:canary@registry"}
    read = settings(shop, "--env", "prod")
    assert read["registry.password"]["value"] == "env:REGISTRY_WORD"
    assert read["s3.credentials"]["value"] == "airflow-connection:bucket"
    assert read["kafka.payments.servers"]["value"] == "b:2"
    for arguments in ([], ["--json"]):
        shown = shop.run(
            "config", *arguments, **password, TIDEGATE_S3_CREDENTIALS="canary", AWS_ENDPOINT_URL="http://a:canary@b"
        )
        assert (shown.code, "canary" in shown.out + shown.err) == (0, False)
        assert "https://…@registry" in shown.out


def test_the_table_says_the_same(shop: Project) -> None:
    result = shop.run("config", TIDEGATE_LAKE="")
    assert "3g" in result.row("spark.driver_memory", f"{FILE}:5")
    assert "default" in result.row("spark.master", "local[2]")
    assert "unset" in result.row("registry.url")
    assert result.row("TIDEGATE_CACHE", "/jars").endswith("TIDEGATE_CACHE") if "TIDEGATE_CACHE" in result.out else True


@pytest.mark.parametrize("arguments", [["config", "--env", "prod"], ["--env", "prod", "config"]])
def test_the_environment_is_selected_before_or_behind_the_command(shop: Project, arguments: list[str]) -> None:
    result = shop.run(*arguments)
    assert "yarn" in result.row("spark.master", f"{FILE}:13")
    assert "prod" in result.row("TIDEGATE_ENV")


def test_a_process_that_has_all_settings_as_variables_is_of_one_environment(shop: Project) -> None:
    complete = {"TIDEGATE_COMPLETE": "yes", "TIDEGATE_ENV": "dev"}
    refused = shop.run("config", "--env", "prod", **complete)
    assert refused.code == 64 and "have all settings of environment 'dev'" in refused.err
    assert shop.run("config", "--env", "dev", **complete).code == 0


def test_a_group_of_commands_has_the_option_too(shop: Project) -> None:
    shop.declare(orders())
    refused = shop.run("quarantine", "list", "orders", "--env", "prd")
    assert (refused.code, "write prod; there are dev, prod" in refused.err) == (78, True)


@pytest.mark.parametrize(
    "command", [["status"], ["config"], ["plan", "orders"], ["doctor"], ["claim", "--reason", "x"]]
)
def test_a_wrong_file_is_an_error_of_every_command_before_anything_is_written(
    project: Project, command: list[str]
) -> None:
    (project.folder / FILE).write_text(SHOP.replace("spark.driver_memory", "spark.driver_memry"))
    project.declare(orders())
    refused = project.run(*command)
    assert (refused.code, refused.out) == (78, "")
    says = f"{project.folder / FILE}:5: there is no setting 'spark.driver_memry'; write spark.driver_memory"
    assert refused.err.strip().endswith(says)
    assert not (project.folder / "lake").exists()


@pytest.mark.parametrize("command", [["status"], ["config"], ["claim", "--reason", "x"]])
def test_a_folder_without_a_file_is_no_project(project: Project, command: list[str]) -> None:
    refused = project.run(*command, TIDEGATE_PROJECT=str(project.folder / "pipelines"))
    assert (refused.code, refused.out) == (78, "")
    assert "`tidegate init`, or set TIDEGATE_PROJECT to the project's folder" in refused.err
