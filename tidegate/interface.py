"""What projects may use of this package, and how that changes.

Public are the names on this page, the commands with their options, exit codes and JSON, the settings, the documented tables of the lake,
and the formats of suites, landed files and messages. Everything else is internal, whatever its name, and may change in each release.

Versions are semantic. Until 1.0 a minor release may break what is public, from then on only a major one, and never without notice:

1. A release deprecates a name, an option, a key or a variable. It does what it did; its use prints a warning, which says what to use in
   its place, and the version that removes it. The changelog says the same under **Deprecated**.
2. The removal is in the next release that may break what is public, and not before three months have gone by. The changelog names it
   under **Removed**.

The warning is a ``FutureWarning``: Python shows it also where the deprecated call is not in the main module, and
``python -W error::FutureWarning`` makes it an error. What is stored in a lake is not deprecated but migrated.
"""

from __future__ import annotations

import warnings

PUBLIC = (
    "tidegate.spec",
    "tidegate.airflow",
    "tidegate.airflow.alerts",
    "tidegate.airflow.approval",
    "tidegate.airflow.plugin",
    "tidegate.airflow.quarantine",
    "tidegate.testing",
    "tidegate.testing.fixtures",
)
"""The modules from which a project imports; the ``__all__`` of each has its public names."""


def deprecated(what: str, instead: str, removal: str) -> None:
    """Warn whoever called the caller. A test fails as soon as the version is the one of the removal.

    Args:
        what: The name, option, key or variable, such as ``Pipeline(owner=…)``.
        instead: What to do in its place, such as ``use Pipeline(team=…)``.
        removal: The version that removes it: a text in the call itself, where the test reads it.
    """
    warnings.warn(f"{what} is deprecated, and Tidegate {removal} removes it: {instead}.", FutureWarning, stacklevel=3)
