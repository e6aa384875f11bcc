"""Replays: quarantined rows, sent through the flow again."""
