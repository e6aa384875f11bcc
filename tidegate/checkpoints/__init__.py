"""What lies beside a flow's checkpoint: its sidecar, how far it got, who holds it, what people decided at run time."""
