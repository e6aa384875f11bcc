"""When a flow is worth an alert, and when that begins and ends."""
