"""Files next to a flow's checkpoint: its sidecar, its progress, its lease, and decisions made at run time."""
