"""The kinds of source, a folder each: how one is declared, measured without a JVM, and read (`tidegate.spec.sources`)."""

# Declarations import parts of tidegate.spec, which imports the declarations: whoever is imported first, tidegate.spec leads.
import tidegate.spec  # noqa: F401
