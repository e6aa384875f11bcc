"""Quarantine entries: their states, claims by replays, decisions about them."""
