"""Checks that a transform makes a row only of source rows whose changes recompute it (docs/adr/0046)."""
