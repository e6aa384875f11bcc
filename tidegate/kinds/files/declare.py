"""What a landing flow of files declares."""

from tidegate.sources.files.declare import FileSource
from tidegate.spec.flow_kind import FlowKind

KIND = FlowKind(name="files", source=FileSource, shapes=(("append", False),), gate=False)
