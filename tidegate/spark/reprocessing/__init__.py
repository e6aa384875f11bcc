"""Backfills and reingests of windows, replays of quarantine entries, and the swap of a full refresh."""
