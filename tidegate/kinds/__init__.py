"""The kinds of flow, a folder each: what one declares, and how its stream is read and its batches are split (`tidegate.spec.kinds`)."""

# As in tidegate.sources: whoever is imported first, tidegate.spec leads.
import tidegate.spec  # noqa: F401
