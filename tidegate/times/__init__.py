"""Times: dates, windows, and which rows are late."""
